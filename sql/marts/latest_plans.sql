-- One row per grid. Which plan did its latest run work on?
select grid, plan_id, run_id, sequence
from runs
qualify row_number() over (partition by grid order by sequence desc, run_id desc) = 1
