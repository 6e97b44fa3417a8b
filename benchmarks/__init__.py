"""Figures about speed, one script each: `python -m benchmarks.<name>`; all of them: `python -m benchmarks`.

Two sides are always measured in turn, in one call and on the same machine, and what they compute is compared. A script
prints a Markdown section: a table, what it rests on, and the machine with the load that it met. Nothing is written
outside temporary folders.
"""
