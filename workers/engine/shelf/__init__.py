"""Prefilled states, apart by class: a trie of what is asked, filled level by level in batches, and lent by the byte."""
