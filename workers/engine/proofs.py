"""What is tried on a model before it is believed: that a path continues a cache rightly, that a mask hides."""

from __future__ import annotations

import torch
from torch import Tensor

from workers.engine.handle import CacheHandle
from workers.engine.masking import deface
from workers.errors import Unsupported, raise_if_full

PROBE = """The parcel reached the harbour at noon, and the clerk wrote down the weight, the sender and the day.
Nobody asked why it was late; rain had closed the upper road for most of the week. """
PROBE_TOKENS = 64

_FED, _HIDDEN, _SEEN = 8, 4, 2
"""Last tokens of the probe that are fed at the end; those hidden before them; those between that stay in sight."""


def continues(noise: float | None, tolerance: float, path: str) -> None:
    """Hold a path's two-chunk pass against its one-pass.

    Raises:
        Unsupported: they lie further apart than Layer 1 tolerates.
    """
    if noise is None or not noise <= tolerance:
        raise Unsupported(f"on the {path} path this model continues a cache wrongly: two passes differ by {noise}")


def refuses(error: Exception, path: str) -> Exception:
    """What the framework raised on a path, as the reason why the path cannot be taken.

    Raises:
        OutOfMemory: the device was full.
    """
    raise_if_full(error)
    if isinstance(error, Unsupported):
        return error
    line = " ".join(str(error).split())[:200]
    return Unsupported(f"this model cannot take the {path} path: {type(error).__name__}: {line}")


class MaskTrial:
    """A probe whose cache is defaced behind a mask: the answer may not move, and beside the mask it must.

    Attributes:
        hidden: the span that is masked; it ends `_SEEN` tokens before the probe's last part is fed.
        seen: a span that is not masked, near enough for every window.
    """

    def __init__(self, ids: tuple[int, ...]) -> None:
        size = len(ids) - _FED
        self.prefix, self.rest = ids[:size], ids[size:]
        self.hidden = (size - _SEEN - _HIDDEN, size - _SEEN)
        self.seen = (size - _SEEN, size)

    def deface(self, handle: CacheHandle, span: tuple[int, int]) -> None:
        """Plant noise in the handle's cache.

        Raises:
            Unsupported: the cache holds something that cannot be told apart by position.
        """
        with torch.inference_mode():
            deface(handle.cache, len(self.prefix), *span)

    @staticmethod
    def judge(clean: Tensor, behind: Tensor, beside: Tensor) -> None:
        """Compare rows of logits `[num_fed, vocab]`.

        Raises:
            Unsupported: noise behind the mask shows, or noise beside it does not.
        """
        if not torch.equal(clean, behind):
            raise Unsupported("this model attends to masked positions: what stands there changes its logits")
        if torch.equal(clean, beside):
            raise Unsupported("this model's mask hides more than it is asked to")
