-- One row per record ever committed. What does the store hold, whatever any plan says?
select *
from read_parquet($trials, union_by_name = true, hive_partitioning = false)
