-- One row per study. Does an intact cache always decide as cold does, and does a broken one sometimes keep the effect?
select
    study,
    count(*) filter (where layer1 = 'intact' and is_cold_reply) as num_intact_cold_equal,
    count(is_cold_reply) filter (where layer1 = 'intact') as num_intact_compared,
    count(*) filter (where layer1 = 'violated' and is_competent and layer2 = 'intact') as num_broken_effect_kept,
    count(layer2) filter (where layer1 = 'violated' and is_competent) as num_broken_judged
from trials
group by study
order by study
