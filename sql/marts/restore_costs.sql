-- One row per (model, device, host, arm, num_tokens) of the cost study. What does a restore of that length take?
-- `num_tokens` is the committed length. Quartiles over the repeats that are done; an arm that restores nothing (`cold`)
-- has none, and its pass over committed prefix and delta is in `prefill_ms`. A crop works on a copy, timed with it.
-- What was taken from a shelf has no time: `+grid=cost` runs every trial alone.
select
    model, device, host, arm, len(committed_ids) as num_tokens,
    count(*) filter (where status = 'done') as num_done,
    count(*) filter (where status = 'unsupported') as num_unsupported,
    max(recomputed_tokens) as recomputed_tokens,
    max(prefill_tokens) as prefill_tokens,
    quantile_cont(restore_ms, 0.25) filter (where cache_length is not null) as restore_ms_q1,
    median(restore_ms) filter (where cache_length is not null) as restore_ms,
    quantile_cont(restore_ms, 0.75) filter (where cache_length is not null) as restore_ms_q3,
    median(prefill_ms) filter (where status = 'done') as prefill_ms
from trials
where study = 'cost'
group by model, device, host, arm, len(committed_ids)
order by model, device, host, arm, num_tokens
