-- One row per (model, model_identity, cache_family, versions, device). Which weights gave the trials, and on what?
select
    model, model_identity, cache_family, versions, device,
    regexp_extract(model_identity, '"dtype":"([^"]*)"', 1) as dtype,
    regexp_extract(model_identity, '"attention":"([^"]*)"', 1) as attention,
    -- A digest or a revision; random weights are named by what they are made of, JSON inside JSON.
    case
        when contains(model_identity, '"weights":"{') then concat(
            regexp_extract(model_identity, '\\"kind\\":\\"([^"\\]*)', 1),
            ' ', regexp_extract(model_identity, '\\"architecture\\":\\"([^"\\]*)', 1),
            ', seed ', regexp_extract(model_identity, '\\"seed\\":([0-9]+)', 1)
        )
        else regexp_extract(model_identity, '"weights":"([^"]*)"', 1)
    end as weights,
    count(*) as num_trials,
    count(distinct template_sha256) as num_templates,
    min(committed_at) as first_committed_at,
    max(committed_at) as last_committed_at
from trials
group by model, model_identity, cache_family, versions, device
order by model, model_identity, cache_family, versions, device
