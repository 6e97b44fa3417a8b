-- One row per done position control that is not exact. Did it overwrite the carrier's tokens, all and no others?
select
    study, model, carrier_tokens, overwritten_tokens, len(branch_ids) as num_branch_ids, episode_id, cell_id, draw
from trials
where arm = 'position_control' and status = 'done'
    and (carrier_tokens is null or overwritten_tokens is distinct from carrier_tokens)
