-- One row per (study, model, arm) planned. How much was measured of an arm, and does it claim to give a state back?
-- The states of `stale`, `text_present`, `position_control` and `provenance_mask` hold the branch on purpose. Sampled
-- trials stand beside greedy ones: this says what there is to go by, and is no rate.
select
    study, model, arm,
    arm not in ('stale', 'text_present', 'position_control', 'provenance_mask') as is_restore,
    count(*) as planned,
    count(*) filter (where status = 'done') as done,
    count(*) filter (where is_flip) as num_flips,
    count(is_flip) as num_judged,
    count(*) filter (where layer1 = 'intact') as num_layer1_intact,
    count(*) filter (where layer1 in ('intact', 'violated')) as num_layer1_measured
from outcomes
where kind is not null
group by study, model, arm
order by study, model, arm
