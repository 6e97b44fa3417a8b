-- One row per (cell_id, draw, reason) of `a` that `b` does not have of the same question. What is new?
-- What was not measured in `b` either is still not known to be safe, so it is new each time.
select *
from a
where reason in ('missing', 'error', 'invalid')
    or not exists (
        select 1 from b where b.question = a.question and b.draw = a.draw and b.reason = a.reason
    )
order by reason, study, model, arm, cell_id, draw
