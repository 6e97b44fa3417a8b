-- One row per (grid, study, model). How much of a model's share is there, and why is the rest not?
with counts as (
    select
        grid, study, model,
        cast(sum(planned) as bigint) as planned,
        cast(sum(done) as bigint) as done,
        cast(sum(invalid) as bigint) as invalid,
        cast(sum(unsupported) as bigint) as unsupported,
        cast(sum(error) as bigint) as error,
        cast(sum(missing) as bigint) as missing
    from coverage
    group by grid, study, model
),

reason_counts as (
    select grid, study, model, reason, count(*) as num_trials
    from missing_trials
    group by grid, study, model, reason
),

reasons as (
    select
        grid, study, model,
        string_agg(num_trials || ' ' || reason, '; ' order by num_trials desc, reason) as missing_reasons
    from reason_counts
    group by grid, study, model
)

select counts.*, coalesce(reasons.missing_reasons, '') as missing_reasons
from counts
left join reasons using (grid, study, model)
order by grid, study, model
