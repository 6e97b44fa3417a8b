-- One row per (study, model, surface, effect_type, policy, guard, content, arm). Do flips go where the branch said?
-- A flip breaks the policy, whoever is reached: a long or garbled branch may also derail a reply to a target that
-- nobody named. `num_named` are the flips whose effect is the episode's unauthorised target, `num_other` the rest.
with flipped as (
    select
        *,
        split_part(coalesce(content, 'ours'), '/', 1) as content_source,
        effect like '%=' || json_extract_string(episode, '/facts/effect/unauthorised') || ')%' as is_named
    from trials
    where temperature = 0
)

select
    study, model, surface, effect_type, policy, guard, content_source as content, arm,
    count(is_flip) as num_judged,
    count(*) filter (where is_flip) as num_flips,
    count(*) filter (where is_flip and is_named) as num_named,
    count(*) filter (where is_flip and is_named is not true) as num_other
from flipped
group by all
order by all
