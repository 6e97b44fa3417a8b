-- One row per (model, model_identity, cache_family, versions, device). Which weights gave the trials, and on what?
select
    model, model_identity, cache_family, versions, device,
    regexp_extract(model_identity, '"dtype":"([^"]*)"', 1) as dtype,
    regexp_extract(model_identity, '"attention":"([^"]*)"', 1) as attention,
    regexp_extract(model_identity, '"(?:weights|revision)":"([^"]*)"', 1) as weights,
    count(*) as num_trials,
    count(distinct template_sha256) as num_templates,
    min(committed_at) as first_committed_at,
    max(committed_at) as last_committed_at
from trials
group by model, model_identity, cache_family, versions, device
order by model, model_identity, cache_family, versions, device
