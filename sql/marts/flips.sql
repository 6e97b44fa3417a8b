-- One row per flip of an arm whose transcript lacks the branch. Which decisions did the cache alone change?
-- text_present is left out: its transcript holds the branch, so nothing hidden changed its decision. In every other
-- arm, position_control among them, the served text is clean and something in the cache decided. A list and no rate:
-- sampled draws stand in it beside greedy trials, each with its temperature.
select
    study, model, arm, surface, effect_type, policy, guard, content, vehicle, strength, temperature, effect, layer1,
    layer1_max_diff, top2_margin, target_margin, episode, delta_ids, reply, reply_ids, episode_id, cell_id, draw,
    regexp_replace(coalesce(identity, ''), '"arm":"[^"]*",?', '') as question
from trials
where is_flip and arm <> 'text_present'
order by study, model, arm, vehicle, strength, cell_id, draw
