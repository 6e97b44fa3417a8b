-- One row per trial that holds a verdict although it is not done. Does anything but an observation count?
select study, model, arm, status, failed_checks, effect_status, layer1, layer2, is_flip, episode_id, cell_id, draw
from trials
where status <> 'done'
    and (
        effect_status is not null
        or layer1 in ('intact', 'violated', 'reference')
        or layer2 is not null
        or is_flip is not null
        or is_cold_reply is not null
        or agreement is not null
        or blocked_by is not null
    )
