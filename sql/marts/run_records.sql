-- One row per run. When, by which command and code, and how many of the trials that count did it record?
with recorded as (
    select run_id, count(*) as num_trials
    from trials
    group by run_id
)

select
    runs.sequence, runs.run_id, runs.grid, runs.started_at, runs.command, runs.commit, runs.versions,
    coalesce(recorded.num_trials, 0) as num_trials
from runs
left join recorded using (run_id)
order by runs.sequence, runs.run_id
