-- One row per (cell_id, draw) of `trials`. What was asked, in words that another version or serving stack shares?
-- A cell's id names the library versions and the digest of the model, too; `asked` leaves out both, `asked_of_model`
-- has the model by its name. Without a readable identity a trial is only itself.
with parts as (
    select
        *,
        case when json_valid(identity) then json_extract_string(identity, '$.episode') end as texts,
        case when json_valid(identity) then json_extract_string(identity, '$.decode') end as decode
    from trials
)

select
    * exclude (texts, decode),
    coalesce(study || chr(31) || arm || chr(31) || texts || chr(31) || decode, cell_id) as asked,
    coalesce(study || chr(31) || arm || chr(31) || texts || chr(31) || decode || chr(31) || model, cell_id)
        as asked_of_model
from parts
