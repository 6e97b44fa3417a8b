-- One row per run. Which command ran, on which plan, where and with what?
select *
from read_parquet($runs, union_by_name = true, hive_partitioning = false)
