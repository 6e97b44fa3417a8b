-- One row per (study, model, surface, guard, content). Does stale flip by the carrier, or by its tokens' positions?
-- A pair is the position control and stale on one attack, both judged. The control is exact where its state is as long
-- as the branch's and differs from it in the carrier's tokens only. Effects and policies are added up. Greedy only.
with counts as (
    select
        study, model, surface, guard, split_part(content, '/', 1) as content,
        count(*) as planned,
        count(*) filter (where status = 'done') as done,
        count(*) filter (where kind = 'attack' and is_competent) as num_competent,
        count(is_competent) filter (where kind = 'attack') as num_competence_known
    from outcomes
    where temperature = 0 and arm = 'position_control'
    group by study, model, surface, guard, split_part(content, '/', 1)
),

controls as (
    select
        control.study, control.model, control.surface, control.guard,
        split_part(control.content, '/', 1) as content,
        control.status, control.carrier_tokens, control.overwritten_tokens,
        stale.is_flip as is_stale_flip,
        control.is_flip as is_control_flip,
        stale.is_flip is not null and control.is_flip is not null as is_pair
    from comparable as control
    left join comparable as stale
        on control.study = stale.study and control.model = stale.model and control.episode_id = stale.episode_id
        and control.asked = stale.asked and control.draw = stale.draw and stale.arm = 'stale'
    where control.temperature = 0 and control.arm = 'position_control'
),

control_counts as (
    select
        study, model, surface, guard, content,
        count(*) filter (where is_pair) as num_pairs,
        count(*) filter (where is_pair and is_stale_flip) as num_stale_flips,
        count(*) filter (where is_pair and is_control_flip) as num_control_flips,
        count(*) filter (where is_pair and is_stale_flip and not is_control_flip) as num_closed,
        count(*) filter (where status = 'done' and overwritten_tokens is not null) as num_exact_length,
        count(*) filter (where status = 'done' and overwritten_tokens = carrier_tokens) as num_exact_span,
        count(*) filter (where status = 'done' and carrier_tokens is not null) as num_carrier_located
    from controls
    group by study, model, surface, guard, content
)

select
    counts.*,
    coalesce(control_counts.num_pairs, 0) as num_pairs,
    coalesce(control_counts.num_stale_flips, 0) as num_stale_flips,
    coalesce(control_counts.num_control_flips, 0) as num_control_flips,
    coalesce(control_counts.num_closed, 0) as num_closed,
    coalesce(control_counts.num_exact_length, 0) as num_exact_length,
    coalesce(control_counts.num_exact_span, 0) as num_exact_span,
    coalesce(control_counts.num_carrier_located, 0) as num_carrier_located
from counts
left join control_counts using (study, model, surface, guard, content)
order by study, model, surface, guard, content
