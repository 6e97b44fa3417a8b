-- One row per trial called intact whose state is not the reference's. How much is taken for noise?
-- The tolerance comes from passes of other shapes, and is wide where arithmetic is coarse (bfloat16). A restore that is
-- exact leaves a distance of exactly 0; what stands here is as close as noise, and may be a small remainder.
select
    study, model, arm, cache_family, layer1_max_diff, layer1_tolerance, is_cold_reply, top2_margin,
    episode_id, cell_id, draw
from trials
where layer1 = 'intact' and layer1_max_diff > 0
order by layer1_max_diff / layer1_tolerance desc, study, model, arm, cell_id, draw
