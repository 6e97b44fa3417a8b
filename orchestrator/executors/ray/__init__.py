"""Ray: one actor a model slot. The only door to ray; its errors are translated here.

On this machine (no address) Ray is started for the run and ends with it. Its dashboard stays on loopback. Token
authentication is on, with a token made for this run: it is kept in the environment, which Ray's own processes inherit,
and nowhere on disk. Ray's ports bind to every interface all the same; without the token they refuse. A cluster that is
joined (`auto`, host:port) keeps the authentication that it was started with.

`workers` and `orchestrator` travel to every machine through the runtime environment; each actor compares its versions
with the driver's before it loads anything. Actors are not detached: they die with the driver, however it dies.
"""

from orchestrator.executors.ray.executor import RayExecutor

__all__ = ["RayExecutor"]
