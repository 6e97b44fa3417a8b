-- One row per (study, model, arm, axes, draw) planned as several cells. Does the census count one situation twice?
select
    study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, draw,
    count(distinct cell_id) as num_cells,
    string_agg(distinct grid, ', ' order by grid) as grids
from planned_trials
group by study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, draw
having count(distinct cell_id) > 1
