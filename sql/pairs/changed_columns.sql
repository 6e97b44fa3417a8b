-- One row per place of a column that differs anywhere. In how many rows that both sides have does it differ?
with found as (
    select unnest(places) as place
    from changed_rows
)

select place, count(*) as num_rows
from found
group by place
order by num_rows desc, place
