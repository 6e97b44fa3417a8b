"""The abort that leaves the cache to its index."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from workers.errors import Unsupported
from workers.pages import Pages

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split
    from workers.surfaces import Held


class ContentAddressed:
    """All that the session computed is kept, in pages found by their tokens; the next request takes what is its own.

    The abort does nothing to the cache. The request that follows holds the committed prefix, so the pages it finds are
    the full ones of that prefix, and the rest is prefilled. Where state cannot be cut between tokens there is no page
    to share: engines then keep a state at some boundary, which is `checkpoint`, or prefill anew, which is `fresh`; the
    arm is unsupported there, so that it never becomes either in silence.
    """

    name: ClassVar[str] = "content_addressed"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """The longest chain of pages that the committed prefix finds, and a pass over the rest."""
        asked = bench.split.committed_ids

        def serve(held: Held) -> Handle:
            pages: Pages[Handle] = Pages()
            pages.release(pages.enter(held.explored.ledger, held.explored))
            found = pages.match(asked)
            if not found:
                raise Unsupported(f"no page of {pages.size} tokens is full in {len(asked)}: nothing is shared")
            state = bench.engine.crop(found[-1].place, found[-1].stop)
            if rest := asked[found[-1].stop :]:
                bench.cost.recomputed_tokens += len(rest)
                bench.engine.feed(state, rest)
            return state

        return bench.restored(serve)


ARM = ContentAddressed()
