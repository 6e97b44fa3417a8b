-- One row per (study, model). What kind of cache does it keep, and what does each way of aborting leave in it?
-- A cell is the Layer 1 verdicts of an arm's trials, several where episodes differ; `…_max_diff` is the largest
-- distance among them, null where lengths differ or nothing was measured. A distance of exactly 0 means equal states:
-- unlike a verdict, it owes nothing to the tolerance, which is wide where arithmetic is coarse.
with measured as (
    select
        *,
        -- The branch alone pushes past its size a window that still held the whole committed prefix.
        len(committed_ids) <= window_tokens and window_tokens < len(committed_ids) + len(branch_ids) as is_crossed,
        -- Nothing of the committed prefix is left in it.
        window_tokens <= len(branch_ids) as is_emptied
    from trials
)

select
    study,
    model,
    string_agg(distinct cache_family, ', ' order by cache_family) as cache_family,
    max(window_tokens) as window_tokens,
    count(distinct episode_id) as num_episodes,
    count(distinct episode_id) filter (where is_crossed) as num_window_crossed,
    count(distinct episode_id) filter (where is_emptied) as num_window_emptied,
    max(layer1_tolerance) as layer1_tolerance,

    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'stale') as stale,
    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'text_present') as text_present,
    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'fresh') as fresh,
    max(layer1_max_diff) filter (where arm = 'fresh') as fresh_max_diff,
    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'checkpoint') as checkpoint,
    max(layer1_max_diff) filter (where arm = 'checkpoint') as checkpoint_max_diff,
    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'truncate') as truncate,
    max(layer1_max_diff) filter (where arm = 'truncate') as truncate_max_diff,
    string_agg(distinct layer1, ', ' order by layer1) filter (where arm = 'truncate_recorded') as truncate_recorded,
    max(layer1_max_diff) filter (where arm = 'truncate_recorded') as truncate_recorded_max_diff,

    string_agg(distinct arm || ': ' || error, '; ' order by arm || ': ' || error)
        filter (where status = 'unsupported') as why_unsupported
from measured
group by study, model
order by cache_family, model
