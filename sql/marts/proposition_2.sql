-- One row per competent trial with Layer 1 violated and Layer 2 intact. Where is the cache wrong and the effect right?
select
    study, model, arm, vehicle, strength, kind, effect, layer1_max_diff, layer1_tolerance, is_cold_reply, top2_margin,
    target_margin, episode_id, cell_id, draw
from trials
where layer1 = 'violated' and layer2 = 'intact' and is_competent
order by study, model, arm, kind, vehicle, strength, cell_id, draw
