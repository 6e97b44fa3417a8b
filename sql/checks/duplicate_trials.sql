-- One row per (cell_id, draw) that `trials` holds more than once. Is every trial counted once?
select cell_id, draw, count(*) as num_rows
from trials
group by cell_id, draw
having count(*) > 1
