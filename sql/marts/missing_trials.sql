-- One row per (grid, cell_id, draw) that is planned and not recorded. Why is it missing?
with reasons as (
    select cell_id, draw, reason
    from missing
    qualify row_number() over (partition by cell_id, draw order by sequence desc, run_id desc, reason) = 1
)

select
    planned_trials.* exclude (is_selected, blocked),
    -- What blocks the cell in its latest plan is newer than what any run ever noted.
    coalesce(
        planned_trials.blocked,
        reasons.reason,
        case when not planned_trials.is_selected then 'not selected' else 'not run' end
    ) as reason
from planned_trials
anti join trials_all using (cell_id, draw)
left join reasons using (cell_id, draw)
