-- One row per (grid, study, model, arm, temperature). How much of what was planned is there, and why is the rest not?
with asked as (
    select
        planned_trials.grid,
        planned_trials.study,
        planned_trials.model,
        planned_trials.arm,
        planned_trials.temperature,
        coalesce(trials.status, 'missing') as status
    from planned_trials
    left join trials on planned_trials.cell_id = trials.cell_id and planned_trials.draw = trials.draw
),

counts as (
    select
        grid, study, model, arm, temperature,
        count(*) as planned,
        count(*) filter (where status = 'done') as done,
        count(*) filter (where status = 'invalid') as invalid,
        count(*) filter (where status = 'unsupported') as unsupported,
        count(*) filter (where status = 'error') as error,
        count(*) filter (where status = 'missing') as missing
    from asked
    group by grid, study, model, arm, temperature
),

reason_counts as (
    select grid, study, model, arm, temperature, reason, count(*) as num_trials
    from missing_trials
    group by grid, study, model, arm, temperature, reason
),

reasons as (
    select
        grid, study, model, arm, temperature,
        string_agg(num_trials || ' ' || reason, '; ' order by num_trials desc, reason) as missing_reasons
    from reason_counts
    group by grid, study, model, arm, temperature
)

select counts.*, coalesce(reasons.missing_reasons, '') as missing_reasons
from counts
left join reasons using (grid, study, model, arm, temperature)
order by grid, study, model, arm, temperature
