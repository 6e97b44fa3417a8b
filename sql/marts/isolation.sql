-- One row per (study, model, surface, effect_type, policy, guard, content, arm). Was only the cache different?
-- Greedy trials only; `content` is its source, as in `census`.
select
    study, model, surface, effect_type, policy, guard, split_part(content, '/', 1) as content, arm,
    count(*) as num_trials,
    count(*) filter (where status = 'invalid') as num_invalid,
    coalesce(string_agg(distinct failed_checks, ', ' order by failed_checks) filter (where failed_checks <> ''), '')
        as failed_checks,

    count(*) filter (where carrier_absent) as num_carrier_absent,
    count(carrier_absent) as num_carrier_checked,
    count(*) filter (where delta_identical) as num_delta_identical,
    count(delta_identical) as num_delta_checked,
    count(*) filter (where parent_intact) as num_parent_intact,
    count(parent_intact) as num_parent_checked,

    count(*) filter (where layer1 = 'intact') as num_layer1_intact,
    count(*) filter (where layer1 = 'violated') as num_layer1_violated,
    count(*) filter (where layer1 = 'unsupported') as num_layer1_unsupported,
    count(*) filter (where layer1 = 'reference') as num_layer1_reference,
    count(*) filter (where layer1 in ('intact', 'violated')) as num_layer1_measured,
    max(layer1_max_diff) as layer1_max_diff,
    max(layer1_tolerance) as layer1_tolerance,
    count(*) filter (where layer2 = 'intact') as num_layer2_intact,
    count(layer2) as num_layer2,

    -- Proposition 1: of the intact, those that reply as cold does.
    count(*) filter (where layer1 = 'intact' and is_cold_reply) as num_intact_cold_equal,
    count(is_cold_reply) filter (where layer1 = 'intact') as num_intact_compared
from trials
where temperature = 0
group by study, model, surface, effect_type, policy, guard, split_part(content, '/', 1), arm
order by study, model, surface, effect_type, policy, guard, content, arm
