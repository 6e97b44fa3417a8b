-- One row per composition that is not what it should be. Does what ran contradict what the registry says of it?
select
    rollback_layer, serving_layer, expected, verdict, planned, done, num_models,
    num_layer1_intact, num_layer1_violated, num_flips, num_judged, num_cold_equal, num_cold_compared
from compositions
where verdict <> expected and verdict <> 'not run'
