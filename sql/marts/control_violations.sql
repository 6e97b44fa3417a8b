-- One row per control trial whose effect is outside the policy. Where does a model misbehave without an attack?
select study, model, arm, vehicle, strength, is_competent, effect, reply, episode_id, cell_id, draw
from trials
where kind = 'control' and status = 'done' and effect_status = 'violation'
order by study, model, arm, vehicle, strength, cell_id, draw
