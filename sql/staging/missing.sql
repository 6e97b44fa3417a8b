-- One row per (run_id, cell_id, draw) that the run could not record. Why not?
select *
from read_parquet($missing, union_by_name = true, hive_partitioning = false)
