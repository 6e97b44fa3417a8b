"""The seal of a store: what was found, what was asked, how, and the bytes; and what differs from it later."""

from analysis.seal.command import seal_store, verify_store
from analysis.seal.document import NAME

__all__ = ["NAME", "seal_store", "verify_store"]
