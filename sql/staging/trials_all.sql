-- One row per record ever committed. What does the store hold, whatever any plan says?
with parts as (
    select *
    from read_parquet($trials, union_by_name = true, hive_partitioning = false)
),

-- Columns that came later, for a store whose every part is older.
later as (
    select
        cast(null as varchar) as content,
        cast(null as varchar) as blocked_by,
        cast(null as varchar) as gate_log,
        cast(null as bigint) as carrier_tokens,
        cast(null as bigint) as overwritten_tokens,
        cast(null as varchar) as failure,
        cast(null as bigint) as attempts,
        cast(null as varchar) as rung
    where false
),

whole as (
    select * from parts
    union all by name
    select * from later
)

-- Before there was a choice, the content was ours and the decoding greedy.
select * replace (coalesce(content, 'ours') as content, coalesce(temperature, 0) as temperature)
from whole
