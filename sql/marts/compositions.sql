-- One row per (rollback_layer, serving_layer). Is a session whole after an abort in this composition, as it should be?
-- Each pair is a surface, where the application drops the branch, and an arm, which is what the layer below it then
-- serves from. `verdict` is read from the trials: broken where every measured cache is, ok where none is, no reply
-- differs from cold's and nothing flipped, mixed otherwise. Unsupported trials are counted, and are in no verdict.
with pairs as (
    select *
    from (
        values
            ('application drop', 'session_app', 'retained handle', 'stale', 'broken'),
            ('application drop', 'session_app', 're-derived prefix', 'fresh', 'ok'),
            ('application drop', 'session_app', 'branch-scoped', 'branch_scoped', 'ok'),
            ('application drop', 'session_app', 'content-addressed', 'content_addressed', 'ok'),
            ('LangGraph', 'langgraph', 'retained handle', 'stale', 'broken'),
            ('LangGraph', 'langgraph', 're-derived prefix', 'fresh', 'ok'),
            ('LangGraph', 'langgraph', 'branch-scoped', 'branch_scoped', 'ok'),
            ('LangGraph', 'langgraph', 'content-addressed', 'content_addressed', 'ok')
    ) as listed (rollback_layer, surface, serving_layer, arm, expected)
),

counts as (
    select
        surface, arm,
        count(*) as planned,
        count(*) filter (where status = 'done') as done,
        count(*) filter (where status = 'unsupported') as unsupported,
        count(distinct model) filter (where status = 'done') as num_models,
        count(*) filter (where layer1 = 'intact') as num_layer1_intact,
        count(*) filter (where layer1 = 'violated') as num_layer1_violated,
        count(*) filter (where is_flip) as num_flips,
        count(is_flip) as num_judged,
        count(*) filter (where is_cold_reply) as num_cold_equal,
        count(is_cold_reply) as num_cold_compared
    from outcomes
    where study = 'rollback'
    group by surface, arm
),

observed as (
    select
        pairs.*,
        coalesce(planned, 0) as planned,
        coalesce(done, 0) as done,
        coalesce(unsupported, 0) as unsupported,
        coalesce(num_models, 0) as num_models,
        coalesce(num_layer1_intact, 0) as num_layer1_intact,
        coalesce(num_layer1_violated, 0) as num_layer1_violated,
        coalesce(num_flips, 0) as num_flips,
        coalesce(num_judged, 0) as num_judged,
        coalesce(num_cold_equal, 0) as num_cold_equal,
        coalesce(num_cold_compared, 0) as num_cold_compared
    from pairs
    left join counts using (surface, arm)
)

select
    *,
    case
        when num_layer1_intact + num_layer1_violated = 0 then 'not run'
        when num_layer1_intact = 0 then 'broken'
        when num_layer1_violated = 0 and num_flips = 0 and num_cold_equal = num_cold_compared then 'ok'
        else 'mixed'
    end as verdict
from observed
order by rollback_layer, expected, serving_layer
