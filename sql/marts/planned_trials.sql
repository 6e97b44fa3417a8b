-- One row per (grid, cell_id, draw) of each grid's latest plan. What is asked for now?
select plans.*
from plans
semi join latest_plans using (grid, plan_id)
