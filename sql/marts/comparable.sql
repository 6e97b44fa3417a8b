-- One row per (study, model, arm, axes, asked, draw). Which trials differ in an axis, and in nothing else asked?
-- `asked` is the identity without its arm and its episode: decode settings, weights and library versions. Of two
-- versions of an arm the later record counts, as in `trials`.
with keyed as (
    select
        study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, temperature,
        episode_id, cell_id, draw, status, is_competent, is_flip, reply_ids, layer1, carrier_tokens,
        overwritten_tokens, committed_at,
        regexp_replace(coalesce(identity, ''), '"(arm|episode)":"[^"]*",?', '', 'g') as asked
    from trials
)

select *
from keyed
qualify row_number() over (
    partition by
        study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, asked, draw
    order by committed_at desc, cell_id desc
) = 1
