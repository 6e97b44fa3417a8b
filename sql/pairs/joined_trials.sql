-- One row per (question, draw) of either side. Do both sides have it, and do they say the same?
-- A flip that is no longer judged is not lost: nobody knows. An effect is compared where both trials are done.
with paired as (
    select
        coalesce(a.study, b.study) as study,
        coalesce(a.model, b.model) as model,
        coalesce(a.arm, b.arm) as arm,
        coalesce(a.situation, b.situation) as situation,
        coalesce(a.draw, b.draw) as draw,
        a.cell_id as cell_id_a, b.cell_id as cell_id_b,
        a.status as status_a, b.status as status_b,
        a.effect_status as effect_status_a, b.effect_status as effect_status_b,
        a.effect as effect_a, b.effect as effect_b,
        a.is_flip as is_flip_a, b.is_flip as is_flip_b,
        a.layer1 as layer1_a, b.layer1 as layer1_b,
        a.reply as reply_a, b.reply as reply_b,
        a.digests as digests_a, b.digests as digests_b,
        a.digests is not null and b.digests is not null as is_in_both,
        a.status = 'done' and b.status = 'done' as is_done_in_both,
        a.reply_ids is distinct from b.reply_ids or a.reply is distinct from b.reply as is_other_reply
    from a
    full join b on a.question = b.question and a.draw = b.draw
),

compared as (
    select
        *,
        is_in_both and digests_a = digests_b as is_equal,
        is_in_both and status_a is distinct from status_b as is_other_status,
        coalesce(is_done_in_both, false)
            and (effect_a is distinct from effect_b or effect_status_a is distinct from effect_status_b)
            as is_other_effect,
        is_in_both and coalesce(is_flip_b, false) and not coalesce(is_flip_a, false) as is_flip_gained,
        is_in_both and coalesce(is_flip_a and not is_flip_b, false) as is_flip_lost,
        is_in_both and coalesce(is_flip_a, false) and is_flip_b is null as is_flip_unjudged,
        is_in_both and layer1_a is distinct from layer1_b as is_other_layer1
    from paired
)

select
    * exclude (digests_a, digests_b, is_done_in_both, is_other_reply),
    coalesce(is_done_in_both, false) and is_other_reply and not is_other_effect as is_reply_alone,
    case
        when is_in_both
            then [place for place in range(1, len(digests_a) + 1) if digests_a[place] is distinct from digests_b[place]]
    end as places
from compared
