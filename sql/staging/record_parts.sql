-- One row per record ever committed. In which part of the store does it stand?
select
    cell_id, draw, run_id, generation, committed_at,
    array_to_string(parse_path(filename)[-3:], '/') as part
from read_parquet($trials, union_by_name = true, hive_partitioning = false, filename = true)
