-- One row per (study, model, arm, axes, temperature, draw) planned as several cells. Is one situation counted twice?
select
    study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, temperature, draw,
    count(distinct cell_id) as num_cells,
    string_agg(distinct grid, ', ' order by grid) as grids
from planned_trials
group by study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, kind, temperature, draw
having count(distinct cell_id) > 1
