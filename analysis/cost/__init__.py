"""What restores cost: t(n) from measured prefills, and a transaction-local restore beside a global flush."""

from analysis.cost.command import add_arguments, show_cost

__all__ = ["add_arguments", "show_cost"]
