-- One row per (cache_family, arm). On which kinds of cache is an arm's cache the committed one?
select
    cache_family, arm,
    count(distinct model) as num_models,
    count(*) as num_trials,
    count(*) filter (where layer1 = 'intact') as num_layer1_intact,
    count(*) filter (where layer1 = 'violated') as num_layer1_violated,
    count(*) filter (where layer1 = 'unsupported') as num_layer1_unsupported,
    count(*) filter (where layer1 = 'reference') as num_layer1_reference,
    count(*) filter (where status = 'invalid') as num_invalid,
    count(*) filter (where status = 'error') as num_error
from trials
group by cache_family, arm
order by cache_family, arm
