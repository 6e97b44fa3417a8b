-- One row per trial with Layer 1 intact and another reply than cold's. Does an intact cache decide as cold does?
select study, model, arm, layer1_max_diff, top2_margin, reply, episode_id, cell_id, draw
from trials
where layer1 = 'intact' and is_cold_reply = false
