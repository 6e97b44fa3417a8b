"""The run, told to wandb. Only `wandb.py` imports the library, in a process of its own."""

from orchestrator.tracking.tracker import Tracker, make_tracker

__all__ = ["Tracker", "make_tracker"]
