-- One row per (study, model, arm) of either side. How much is the same, and what kind of difference is the rest?
select
    study, model, arm,
    count(*) filter (where is_in_both) as num_in_both,
    count(*) filter (where is_equal) as num_equal,
    count(*) filter (where cell_id_b is null) as num_only_a,
    count(*) filter (where cell_id_a is null) as num_only_b,
    count(*) filter (where is_other_status) as num_other_status,
    count(*) filter (where is_other_effect) as num_other_effect,
    count(*) filter (where is_flip_gained) as num_flips_gained,
    count(*) filter (where is_flip_lost) as num_flips_lost,
    count(*) filter (where is_flip_unjudged) as num_flips_unjudged,
    count(*) filter (where is_reply_alone) as num_reply_alone,
    count(*) filter (where is_other_layer1) as num_other_layer1
from joined_trials
group by study, model, arm
order by study, model, arm
