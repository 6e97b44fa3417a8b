-- One row per (question, draw) that one side lacks or has otherwise. What became of the rows of `a` in `b`?
-- Of every row a side has `digests`, one a column in an order of its own, and the part in which it stands; `places`
-- are those of the columns that differ, from 1.
select
    coalesce(a.study, b.study) as study,
    coalesce(a.model, b.model) as model,
    coalesce(a.arm, b.arm) as arm,
    coalesce(a.episode_id, b.episode_id) as episode_id,
    coalesce(a.situation, b.situation) as situation,
    coalesce(a.cell_id, b.cell_id) as cell_id,
    coalesce(a.draw, b.draw) as draw,
    case when b.digests is null then 'gone' when a.digests is null then 'added' else 'changed' end as change,
    case
        when a.digests is not null and b.digests is not null
            then [place for place in range(1, len(a.digests) + 1) if a.digests[place] is distinct from b.digests[place]]
    end as places,
    coalesce(b.part, a.part) as part
from a
full join b on a.question = b.question and a.draw = b.draw
where a.digests is distinct from b.digests
order by model, cell_id, draw
