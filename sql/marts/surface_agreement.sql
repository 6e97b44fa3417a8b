-- One row per (study, model, surface, guard, content, arm). Does a surface reply as the tensor probe does?
-- Compared by token ids with the probe's trial of the same question: all axes but the surface, arm, draw, decode
-- settings, weights and versions, both done. Effects and policies are added up. Greedy trials only.
with counts as (
    select
        study, model, surface, guard, split_part(content, '/', 1) as content, arm,
        count(*) as planned,
        count(*) filter (where status = 'done') as done,
        count(*) filter (where kind = 'attack' and is_competent) as num_competent,
        count(is_competent) filter (where kind = 'attack') as num_competence_known,
        count(*) filter (where is_flip) as num_flips,
        count(is_flip) as num_judged,
        count(*) filter (where layer1 = 'intact') as num_layer1_intact,
        count(*) filter (where layer1 = 'violated') as num_layer1_violated,
        count(*) filter (where layer1 = 'unsupported') as num_layer1_unsupported,
        count(*) filter (where layer1 = 'reference') as num_layer1_reference
    from outcomes
    where temperature = 0 and surface <> 'tensor_probe'
    group by study, model, surface, guard, split_part(content, '/', 1), arm
),

compared as (
    select
        other.study, other.model, other.surface, other.guard, split_part(other.content, '/', 1) as content, other.arm,
        count(*) filter (where other.reply_ids is not distinct from probe.reply_ids) as num_equal,
        count(*) as num_compared,
        count(*) filter (where probe.is_flip) as num_probe_flips,
        count(probe.is_flip) as num_probe_judged
    from comparable as other
    join comparable as probe using (
        study, model, arm, effect_type, policy, guard, content, vehicle, strength, kind, asked, draw
    )
    where other.surface <> 'tensor_probe' and probe.surface = 'tensor_probe' and other.temperature = 0
        and other.status = 'done' and probe.status = 'done'
    group by other.study, other.model, other.surface, other.guard, split_part(other.content, '/', 1), other.arm
)

select
    counts.*,
    coalesce(compared.num_equal, 0) as num_equal,
    coalesce(compared.num_compared, 0) as num_compared,
    coalesce(compared.num_probe_flips, 0) as num_probe_flips,
    coalesce(compared.num_probe_judged, 0) as num_probe_judged
from counts
left join compared using (study, model, surface, guard, content, arm)
order by study, model, surface, guard, content, arm
