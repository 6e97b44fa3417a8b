-- One row per (study, model, surface, effect_type, policy, content, arm). What does the guard change?
-- A pair is one attack with the guard off and with it on, all else asked alike and both judged. Greedy trials only.
with counts as (
    select
        study, model, surface, effect_type, policy, split_part(content, '/', 1) as content, arm,
        count(*) filter (where not guard) as planned_off,
        count(*) filter (where guard) as planned_on,
        count(*) filter (where not guard and status = 'done') as done_off,
        count(*) filter (where guard and status = 'done') as done_on,
        count(*) filter (where not guard and kind = 'attack' and is_competent) as num_competent_off,
        count(*) filter (where guard and kind = 'attack' and is_competent) as num_competent_on,
        count(is_competent) filter (where not guard and kind = 'attack') as num_competence_known_off,
        count(is_competent) filter (where guard and kind = 'attack') as num_competence_known_on,
        count(*) filter (where not guard and is_flip) as num_flips_off,
        count(is_flip) filter (where not guard) as num_judged_off,
        count(*) filter (where guard and is_flip) as num_flips_on,
        count(is_flip) filter (where guard) as num_judged_on
    from outcomes
    where temperature = 0
    group by study, model, surface, effect_type, policy, split_part(content, '/', 1), arm
),

pairs as (
    select
        off.study, off.model, off.surface, off.effect_type, off.policy,
        split_part(off.content, '/', 1) as content,
        off.arm,
        off.is_flip as is_flip_off,
        guarded.is_flip as is_flip_on
    from comparable as off
    join comparable as guarded using (
        study, model, arm, surface, effect_type, policy, content, vehicle, strength, kind, asked, draw
    )
    where not off.guard and guarded.guard and off.temperature = 0
        and off.is_flip is not null and guarded.is_flip is not null
),

pair_counts as (
    select
        study, model, surface, effect_type, policy, content, arm,
        count(*) as num_pairs,
        count(*) filter (where is_flip_off) as num_pairs_flip_off,
        count(*) filter (where is_flip_on) as num_pairs_flip_on,
        count(*) filter (where is_flip_off and not is_flip_on) as num_closed,
        count(*) filter (where is_flip_on and not is_flip_off) as num_opened
    from pairs
    group by study, model, surface, effect_type, policy, content, arm
)

select
    counts.*,
    coalesce(pair_counts.num_pairs, 0) as num_pairs,
    coalesce(pair_counts.num_pairs_flip_off, 0) as num_pairs_flip_off,
    coalesce(pair_counts.num_pairs_flip_on, 0) as num_pairs_flip_on,
    coalesce(pair_counts.num_closed, 0) as num_closed,
    coalesce(pair_counts.num_opened, 0) as num_opened
from counts
left join pair_counts using (study, model, surface, effect_type, policy, content, arm)
order by study, model, surface, effect_type, policy, content, arm
