-- One row per (grid, cell_id, draw) stored under other axes than planned. Is a row what its plan says it is?
select
    planned_trials.grid,
    trials.cell_id,
    trials.draw,
    concat_ws(
        ', ',
        case when trials.episode_id is distinct from planned_trials.episode_id then 'episode_id' end,
        case when trials.study is distinct from planned_trials.study then 'study' end,
        case when trials.model is distinct from planned_trials.model then 'model' end,
        case when trials.arm is distinct from planned_trials.arm then 'arm' end,
        case when trials.surface is distinct from planned_trials.surface then 'surface' end,
        case when trials.effect_type is distinct from planned_trials.effect_type then 'effect_type' end,
        case when trials.policy is distinct from planned_trials.policy then 'policy' end,
        case when trials.guard is distinct from planned_trials.guard then 'guard' end,
        case when trials.content is distinct from planned_trials.content then 'content' end,
        case when trials.vehicle is distinct from planned_trials.vehicle then 'vehicle' end,
        case when trials.strength is distinct from planned_trials.strength then 'strength' end,
        case when trials.kind is distinct from planned_trials.kind then 'kind' end,
        case when trials.temperature is distinct from planned_trials.temperature then 'temperature' end
    ) as differing
from planned_trials
join trials on planned_trials.cell_id = trials.cell_id and planned_trials.draw = trials.draw
where differing <> ''
