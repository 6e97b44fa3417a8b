-- One row per trial that is done although an isolation check failed. Is what we call done isolated?
select study, model, arm, carrier_absent, delta_identical, parent_intact, failed_checks, episode_id, cell_id, draw
from trials
where status = 'done'
    and (
        carrier_absent is distinct from true
        or delta_identical is distinct from true
        or parent_intact is distinct from true
        or coalesce(failed_checks, '') <> ''
    )
