-- One row per (model, cell_id, draw) asked for by any grid's latest plan. What came of it, `missing` included?
with asked as (
    select distinct
        study, model, arm, surface, effect_type, policy, guard, vehicle, strength, kind, episode_id, cell_id, draw
    from planned_trials
)

select
    asked.*,
    coalesce(trials.status, 'missing') as status,
    trials.effect_status,
    trials.is_competent,
    trials.is_flip,
    trials.layer1,
    trials.layer2,
    trials.is_cold_reply,
    trials.agreement,
    trials.carrier_absent,
    trials.delta_identical
from asked
left join trials on asked.cell_id = trials.cell_id and asked.draw = trials.draw
