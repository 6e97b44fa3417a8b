-- One row per trial whose status or verdict is no known word. Could a row fall through every count?
select study, model, arm, status, effect_status, layer1, episode_id, cell_id, draw
from trials
where status is null
    or status not in ('done', 'invalid', 'unsupported', 'error')
    or effect_status not in ('authorised', 'violation', 'refused', 'unparseable', 'censored')
    or layer1 not in ('intact', 'violated', 'unsupported', 'reference')
    or (status = 'done' and kind in ('attack', 'control') and effect_status is null)
