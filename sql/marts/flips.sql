-- One row per flip of an arm whose transcript lacks the branch. Which decisions did the cache alone change?
-- text_present is left out: its transcript holds the branch, so nothing hidden changed its decision.
select
    study, model, arm, surface, effect_type, policy, guard, vehicle, strength, effect, layer1, layer1_max_diff,
    top2_margin, target_margin, episode, delta_ids, reply, reply_ids, episode_id, cell_id, draw,
    regexp_replace(coalesce(identity, ''), '"arm":"[^"]*",?', '') as question
from trials
where is_flip and arm <> 'text_present'
order by study, model, arm, vehicle, strength, cell_id, draw
