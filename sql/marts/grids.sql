-- One row per (grid, study). What does its latest plan ask for?
select
    grid, study,
    count(distinct model) as num_models,
    count(distinct episode_id) as num_episodes,
    count(distinct cell_id) as num_cells,
    count(*) as num_trials,
    string_agg(distinct model, ', ' order by model) as models,
    string_agg(distinct arm, ', ' order by arm) as arms,
    string_agg(distinct surface, ', ' order by surface) as surfaces,
    string_agg(distinct effect_type, ', ' order by effect_type) as effect_types,
    string_agg(distinct policy, ', ' order by policy) as policies,
    string_agg(distinct cast(guard as varchar), ', ' order by cast(guard as varchar)) as guards,
    string_agg(distinct split_part(content, '/', 1), ', ' order by split_part(content, '/', 1)) as contents,
    string_agg(distinct vehicle, ', ' order by vehicle) as vehicles,
    string_agg(distinct strength, ', ' order by strength) as strengths,
    string_agg(distinct cast(temperature as varchar), ', ' order by cast(temperature as varchar)) as temperatures,
    string_agg(distinct kind, ', ' order by kind) as kinds
from planned_trials
group by grid, study
order by grid, study
