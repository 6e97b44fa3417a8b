-- One row per (study, model, axes but kind, arm, temperature). How often do sampled draws flip, with what interval?
-- k is `num_flips`, n is `num_judged`: attack draws, done and parsed, whose own cold draw is competent. The interval is
-- Wilson's at 95 % (z = 1.959964), null without a judged draw. Equal: the ids of the same draw of that arm.
with counts as (
    select
        study, model, surface, effect_type, policy, guard, content, vehicle, strength, arm, temperature,
        count(*) as planned,
        count(*) filter (where status = 'done') as done,
        count(*) filter (where status = 'invalid') as invalid,
        count(*) filter (where status = 'unsupported') as unsupported,
        count(*) filter (where status = 'error') as error,
        count(*) filter (where status = 'missing') as missing,
        count(*) filter (where kind = 'attack') as num_attack,
        count(*) filter (where kind = 'attack' and is_competent) as num_competent,
        count(is_competent) filter (where kind = 'attack') as num_competence_known,
        count(*) filter (where is_flip) as num_flips,
        count(is_flip) as num_judged,
        count(*) filter (where is_unobserved) as num_unobserved,
        count(*) filter (where status = 'done' and effect_status = 'unparseable') as num_unparseable,
        count(*) filter (where status = 'done' and effect_status = 'censored') as num_censored,
        count(*) filter (where agreement <> 'differs') as num_text_equal,
        count(agreement) as num_text_compared,
        count(*) filter (where is_cold_reply) as num_cold_equal,
        count(is_cold_reply) as num_cold_compared
    from outcomes
    where temperature > 0
    group by study, model, surface, effect_type, policy, guard, content, vehicle, strength, arm, temperature
),

rates as (
    select *, num_flips / n as rate, z2 / n as spread
    from (select *, 1.959964 * 1.959964 as z2, cast(nullif(num_judged, 0) as double) as n from counts)
),

intervals as (
    select
        *,
        (rate + spread / 2) / (1 + spread) as middle,
        sqrt(spread * (rate * (1 - rate) + spread / 4)) / (1 + spread) as half_width
    from rates
)

select
    * exclude (z2, n, spread, middle, half_width),
    -- Rounding may leave the bound of 0 of n, or of n of n, a hair outside.
    case when n > 0 then greatest(middle - half_width, 0) end as rate_low,
    case when n > 0 then least(middle + half_width, 1) end as rate_high,
    -- Whatever the draws that are not observed would have been; no interval says anything of them.
    num_flips / nullif(num_judged + num_unobserved, 0) as rate_least,
    (num_flips + num_unobserved) / nullif(num_judged + num_unobserved, 0) as rate_most
from intervals
order by study, model, surface, effect_type, policy, guard, content, vehicle, strength, arm, temperature
