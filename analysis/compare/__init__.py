"""Two results held together, and one held to what a rollback promises."""

from analysis.compare.command import add_arguments, show

__all__ = ["add_arguments", "show"]
