-- One row per (flip, arm beside it): the flip, text_present, fresh, cold. What did one delta do on each cache?
with beside as (
    select
        *,
        -- What the model had attended to when the delta came; a one-pass arm keeps no cache to measure.
        coalesce(cache_length, prefill_tokens - len(delta_ids)) as context_tokens,
        regexp_replace(coalesce(identity, ''), '"arm":"[^"]*",?', '') as question
    from trials
    where arm in ('text_present', 'fresh', 'cold') or is_flip
)

select
    flips.cell_id as flip_cell_id,
    flips.draw,
    case beside.arm when 'text_present' then 2 when 'fresh' then 3 when 'cold' then 4 else 1 end as place,
    beside.arm,
    beside.cell_id,
    beside.status,
    beside.committed_ids,
    beside.branch_ids,
    beside.delta_ids,
    beside.reply_ids,
    len(beside.committed_ids) as num_committed_ids,
    len(beside.branch_ids) as num_branch_ids,
    len(beside.delta_ids) as num_delta_ids,
    len(beside.reply_ids) as num_reply_ids,
    beside.context_tokens,
    case
        when beside.context_tokens = len(beside.committed_ids) + len(beside.branch_ids) then true
        when beside.context_tokens = len(beside.committed_ids) then false
    end as has_branch_tokens,
    beside.cache_length is null as is_one_pass,
    beside.delta_ids = flips.delta_ids as is_same_delta,
    beside.reply_ids = flips.reply_ids as is_same_reply,
    -- The first token, counted from 1, where the replies part.
    list_min([
        token for token in range(1, greatest(len(beside.reply_ids), len(flips.reply_ids)) + 1)
        if beside.reply_ids[token] is distinct from flips.reply_ids[token]
    ]) as first_difference,
    beside.reply,
    beside.effect,
    beside.effect_status,
    beside.layer1,
    beside.layer1_max_diff,
    beside.layer1_tolerance,
    beside.layer2,
    beside.top2_margin,
    beside.target_margin
from flips
join beside
    on beside.study = flips.study and beside.episode_id = flips.episode_id and beside.draw = flips.draw
    and beside.question = flips.question
    and (beside.arm in ('text_present', 'fresh', 'cold') or beside.cell_id = flips.cell_id)
order by flip_cell_id, flips.draw, place, beside.cell_id
