-- One row per coverage row that does not add up. Is everything planned accounted for, with a reason where missing?
with explained as (
    select grid, study, model, arm, temperature, count(*) as num_explained
    from missing_trials
    group by grid, study, model, arm, temperature
)

select coverage.*, coalesce(explained.num_explained, 0) as num_explained
from coverage
left join explained using (grid, study, model, arm, temperature)
where coverage.planned
    <> coverage.done + coverage.invalid + coverage.unsupported + coverage.error + coverage.missing
    or coverage.missing <> coalesce(explained.num_explained, 0)
