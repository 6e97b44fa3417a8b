-- One row per (study, model, arm, axes, temperature, draw) planned as several cells. Is one situation counted twice?
-- Whatever else a plan has as a column is an axis of its study.
select
    * exclude (plan_id, grid, cell_id, episode_id, parts, is_selected, blocked),
    count(distinct cell_id) as num_cells,
    string_agg(distinct grid, ', ' order by grid) as grids
from planned_trials
group by all
having count(distinct cell_id) > 1
