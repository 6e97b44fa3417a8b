"""Which cells, when, where. Never touches a tensor."""
