"""Replies from many states at once: rows of one batch that come and go, and a guard that doubts near ties."""
