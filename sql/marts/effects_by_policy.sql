-- One row per (study, model, effect_type, policy, content, arm). Does the channel reach every effect and policy?
-- Greedy trials of the tensor probe without the guard: what other surfaces and the guard do is in views of their own.
select
    study, model, effect_type, policy, split_part(content, '/', 1) as content, arm,
    count(*) as planned,
    count(*) filter (where status = 'done') as done,
    count(*) filter (where kind = 'attack') as num_attack,
    count(*) filter (where kind = 'attack' and is_competent) as num_competent,
    count(is_competent) filter (where kind = 'attack') as num_competence_known,
    count(*) filter (where is_flip) as num_flips,
    count(is_flip) as num_judged,
    count(*) filter (where status = 'done' and effect_status = 'unparseable') as num_unparseable,
    count(*) filter (where is_cold_reply) as num_cold_equal,
    count(is_cold_reply) as num_cold_compared,
    -- Isolation of the delta, by text and by ids, and of the cache.
    count(*) filter (where carrier_absent and delta_identical) as num_isolated,
    count(*) filter (where carrier_absent is not null and delta_identical is not null) as num_isolation_checked,
    count(*) filter (where layer1 = 'intact') as num_layer1_intact,
    count(*) filter (where layer1 = 'violated') as num_layer1_violated
from outcomes
where temperature = 0 and surface = 'tensor_probe' and not guard
group by study, model, effect_type, policy, split_part(content, '/', 1), arm
order by study, model, effect_type, policy, content, arm
