-- One row per (study, model, surface, effect_type, policy, guard, content, arm, vehicle). Does the way in matter?
-- Greedy trials only; `content` is its source, as in `census`.
select
    study, model, surface, effect_type, policy, guard, split_part(content, '/', 1) as content, arm, vehicle,
    count(*) as planned,
    count(*) filter (where status = 'done') as done,
    count(*) filter (where status = 'invalid') as invalid,
    count(*) filter (where status = 'unsupported') as unsupported,
    count(*) filter (where status = 'error') as error,
    count(*) filter (where status = 'missing') as missing,
    count(*) filter (where kind = 'attack') as num_attack,
    count(*) filter (where kind = 'attack' and is_competent) as num_competent,
    count(is_competent) filter (where kind = 'attack') as num_competence_known,
    count(*) filter (where is_flip) as num_flips,
    count(is_flip) as num_judged
from outcomes
where temperature = 0
group by study, model, surface, effect_type, policy, guard, split_part(content, '/', 1), arm, vehicle
order by study, model, surface, effect_type, policy, guard, content, arm, vehicle
