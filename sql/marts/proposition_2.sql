-- One row per competent trial with Layer 1 broken and Layer 2 intact. Where does a dirty cache decide rightly?
-- A right decision is no proof of a clean cache. Only arms that promise the committed state are asked: a one-pass
-- trial has no cache length, and its transcript keeps the branch.
select
    study, model, arm, vehicle, strength, kind, layer1_max_diff, effect, target_margin, reply, episode_id, cell_id, draw
from trials
where layer1 = 'violated' and layer2 = 'intact' and is_competent and cache_length is not null
order by study, model, arm, vehicle, strength, kind, cell_id, draw
