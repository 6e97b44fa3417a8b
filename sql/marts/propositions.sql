-- One row per study. Does an intact cache always decide as cold does, and does a broken one sometimes keep the effect?
with judged as (
    -- A one-pass trial has no cache length, and promises no committed state that could be broken.
    select *, layer1 = 'violated' and is_competent and cache_length is not null as is_broken
    from trials
)

select
    study,
    count(*) filter (where layer1 = 'intact' and is_cold_reply) as num_intact_cold_equal,
    count(is_cold_reply) filter (where layer1 = 'intact') as num_intact_compared,
    count(*) filter (where is_broken and layer2 = 'intact') as num_broken_effect_kept,
    count(layer2) filter (where is_broken) as num_broken_judged
from judged
group by study
order by study
