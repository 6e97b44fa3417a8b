-- One row per (grid, study). How much of what was asked for is there?
select
    grid, study,
    cast(sum(planned) as bigint) as planned,
    cast(sum(done) as bigint) as done,
    cast(sum(invalid) as bigint) as invalid,
    cast(sum(unsupported) as bigint) as unsupported,
    cast(sum(error) as bigint) as error,
    cast(sum(missing) as bigint) as missing
from coverage
group by grid, study
order by grid, study
