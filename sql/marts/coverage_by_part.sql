-- One row per (grid, study, part, model). How much of a part is there, where a cell of several counts in each?
with asked as (
    select
        planned_trials.grid,
        planned_trials.study,
        -- A grid without parts is its own only one.
        unnest(string_split(coalesce(nullif(planned_trials.parts, ''), planned_trials.grid), ',')) as part,
        planned_trials.model,
        coalesce(trials.status, 'missing') as status
    from planned_trials
    left join trials on planned_trials.cell_id = trials.cell_id and planned_trials.draw = trials.draw
)

select
    grid, study, part, model,
    count(*) as planned,
    count(*) filter (where status = 'done') as done,
    count(*) filter (where status = 'invalid') as invalid,
    count(*) filter (where status = 'unsupported') as unsupported,
    count(*) filter (where status = 'error') as error,
    count(*) filter (where status = 'missing') as missing
from asked
group by grid, study, part, model
order by grid, study, part, model
