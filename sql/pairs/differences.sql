-- One row per (question, draw) that one side lacks or has otherwise. Which trials differ?
select *
from joined_trials
where not is_equal
order by
    is_flip_gained desc, is_flip_lost desc, is_flip_unjudged desc, is_other_effect desc, is_other_status desc,
    is_other_layer1 desc, is_in_both desc, study, model, arm, coalesce(cell_id_a, cell_id_b), draw
