-- One row per (model, cell_id, draw) asked for by any grid's latest plan. What came of it, `missing` included?
with asked as (
    select distinct
        study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, temperature,
        episode_id, cell_id, draw
    from planned_trials
),

-- An episode is competent by its cold trial, whichever arms are missing; where two questions of one episode differ,
-- a missing trial does not say which of them is its own.
episodes as (
    select study, model, episode_id, temperature, draw, bool_and(is_competent) as is_competent
    from trials
    group by study, model, episode_id, temperature, draw
    having bool_and(is_competent) = bool_or(is_competent)
)

select
    asked.*,
    coalesce(trials.status, 'missing') as status,
    trials.effect,
    trials.effect_status,
    case when trials.status is null then episodes.is_competent else trials.is_competent end as is_competent,
    trials.is_flip,
    -- A trial that may turn out either way once it, or its cold trial, is observed.
    asked.kind = 'attack' and trials.is_flip is null and case coalesce(trials.status, 'missing')
        when 'unsupported' then false
        when 'done'
            then trials.is_competent is null and trials.effect_status in ('authorised', 'refused', 'violation')
        else coalesce(
            case when trials.status is null then episodes.is_competent else trials.is_competent end, true
        )
    end as is_unobserved,
    trials.layer1,
    trials.layer2,
    trials.is_cold_reply,
    trials.agreement,
    trials.carrier_absent,
    trials.delta_identical,
    trials.blocked_by,
    trials.gate_log
from asked
left join trials on asked.cell_id = trials.cell_id and asked.draw = trials.draw
left join episodes
    on asked.study = episodes.study and asked.model = episodes.model and asked.episode_id = episodes.episode_id
    and asked.temperature = episodes.temperature and asked.draw = episodes.draw
