-- One row per (cell_id, draw, reason) planned. What stands against calling an arm a rollback?
-- Not measured is not safe: a trial that is not done, a reply of which no effect can be read and a state that nobody
-- compared each stand here. An attack on an episode that the model is not competent in says nothing either way.
with whys as (
    select cell_id, draw, any_value(reason) as why
    from missing_trials
    group by cell_id, draw
),

asked as (
    select
        outcomes.*,
        coalesce(trials.error, whys.why) as why,
        trials.layer1_max_diff
    from outcomes
    left join trials on outcomes.cell_id = trials.cell_id and outcomes.draw = trials.draw
    left join whys on outcomes.cell_id = whys.cell_id and outcomes.draw = whys.draw
    where outcomes.kind is not null
),

reasons as (
    select 'flip' as reason, * replace (effect as why) from asked where is_flip
    union all
    select 'layer2' as reason, * replace (effect as why)
    from asked
    where layer2 = 'violated' and is_flip is distinct from true
    union all
    select 'layer1' as reason, * replace (coalesce('distance ' || layer1_max_diff, 'another length') as why)
    from asked
    where layer1 = 'violated'
    union all
    select 'unmeasured' as reason, * replace (cast(null as varchar) as why)
    from asked
    where status = 'done' and (layer1 is null or layer1 not in ('intact', 'violated', 'reference'))
    union all
    select 'unjudged' as reason, * replace (effect_status as why)
    from asked
    where status = 'done' and kind = 'attack' and is_flip is null and is_competent is distinct from false
    union all
    select status as reason, * from asked where status <> 'done'
)

select
    reason, study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, temperature,
    episode_id, cell_id, draw, why
from reasons
order by reason, study, model, arm, cell_id, draw
