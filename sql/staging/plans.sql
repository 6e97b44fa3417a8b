-- One row per (plan_id, grid, cell_id, draw). What was ever asked for?
with parts as (
    select *
    from read_parquet($plans, union_by_name = true, hive_partitioning = false)
),

-- A store without a plan has no axis columns yet, and one of an earlier version no parts; the marts name them.
axes as (
    select
        cast(null as varchar) as parts,
        cast(null as varchar) as surface,
        cast(null as varchar) as effect_type,
        cast(null as varchar) as policy,
        cast(null as boolean) as guard,
        cast(null as varchar) as content,
        cast(null as varchar) as vehicle,
        cast(null as varchar) as strength,
        cast(null as varchar) as kind
    where false
),

whole as (
    select * from parts
    union all by name
    select * from axes
)

-- Before there was a choice, the content was ours and the decoding greedy.
select * replace (coalesce(content, 'ours') as content, coalesce(temperature, 0) as temperature)
from whole
