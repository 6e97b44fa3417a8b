-- One row per trial whose Layer 1 cannot be so. Is the instrument that measures what the audit is about broken?
-- A branch that was fed and never taken back is there, though its carrier be overwritten; a state that was saved before
-- it, or built without it, holds none of it; and a recurrent state cannot give it back to the last bit, whatever a crop
-- reports (transformers#49036): a distance of exactly 0 means that the state was not looked at.
select study, model, arm, cache_family, layer1, layer1_max_diff, layer1_tolerance, episode_id, cell_id, draw
from trials
where status = 'done'
    and (
        (arm in ('stale', 'text_present', 'position_control') and layer1 <> 'violated')
        or (arm in ('fresh', 'checkpoint', 'branch_scoped') and layer1 <> 'intact')
        or (arm like 'truncate%' and cache_family in ('hybrid', 'recurrent') and layer1_max_diff = 0)
    )
