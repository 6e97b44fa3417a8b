"""Session classes as somebody may have written them: right ones, and ones with one fault each."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar

import torch
from transformers import DynamicCache, StaticCache

from workers.audit import Audited


def keyword(model: Any) -> str:
    """The cache argument: renamed in transformers 5.24."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


class Checkpoint(Audited):
    """Right: a copy of the cache, taken before the branch, comes back at the abort."""

    model: ClassVar[Any] = None
    ends: ClassVar[frozenset[int]] = frozenset()

    def __init__(self) -> None:
        self.kv, self.ids = DynamicCache(), []

    def run(self, ids: list[int]) -> int:
        start = len(self.ids)
        positions = torch.arange(start, start + len(ids))[None]
        with torch.inference_mode():
            kept = {keyword(self.model): self.kv}
            out = self.model(torch.tensor([ids]), position_ids=positions, use_cache=True, **kept)
        self.ids += ids
        return int(out.logits[0, -1].argmax())

    def keep(self) -> tuple[Any, list[int]]:
        with torch.inference_mode():
            return copy.deepcopy(self.kv), list(self.ids)

    def restore(self) -> None:
        with torch.inference_mode():
            self.kv, self.ids = copy.deepcopy(self.saved[0]), list(self.saved[1])

    def open(self, ids: list[int]) -> None:
        self.run(ids)
        self.saved = self.keep()

    def feed(self, ids: list[int]) -> None:
        self.run(ids)

    def abort(self) -> None:
        self.restore()

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        reply: list[int] = []
        token = self.run(ids)
        while token not in self.ends and len(reply) < max_new_tokens:
            reply.append(token)
            if len(reply) < max_new_tokens:
                token = self.run([token])
        return reply

    def tokens(self) -> list[int] | None:
        return list(self.ids)

    def cache(self) -> Any:
        return self.kv


# Right ones


class Crop(Checkpoint):
    """The cache is cut back to its length before the branch."""

    excess = 0

    def abort(self) -> None:
        surplus = len(self.ids) - len(self.saved[1]) - self.excess
        self.kv.crop(-surplus)
        del self.ids[-surplus:]


class Static(Crop):
    """The same with a static cache, whose crop moves a counter and leaves the branch's keys where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = StaticCache(config=self.model.config, max_cache_len=2048)


class OnFork(Checkpoint):
    """The branch goes to a copy, which a decision without an abort takes over."""

    fork: Any = None

    def feed(self, ids: list[int]) -> None:
        own = self.keep()
        self.run(ids)
        self.fork, (self.kv, self.ids) = (self.kv, self.ids), own

    def abort(self) -> None:
        self.fork = None

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        if self.fork is not None:
            (self.kv, self.ids), self.fork = self.fork, None
        return super().decide(ids, max_new_tokens)


class Forgetful(Checkpoint):
    """Every decision is made on a copy, so that a second one knows nothing of the first."""

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        own = self.keep()
        reply = super().decide(ids, max_new_tokens)
        self.kv, self.ids = own
        return reply


class Lazy(Checkpoint):
    """The abort is put off until the decision, and done before it."""

    is_due = False

    def abort(self) -> None:
        self.is_due = True

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        if self.is_due:
            self.restore()
            self.is_due = False
        return super().decide(ids, max_new_tokens)


class Prefilled(Checkpoint):
    """Nothing is kept between calls but a transcript, which every decision prefills."""

    def run(self, ids: list[int]) -> int:
        self.ids += ids
        self.kv = None
        with torch.inference_mode():
            return int(self.model(torch.tensor([self.ids]), use_cache=False).logits[0, -1].argmax())

    def abort(self) -> None:
        self.ids = list(self.saved[1])


class Hybrid(Checkpoint):
    """With a cache of the library's own make, as a hybrid model needs it."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = DynamicCache(config=self.model.config)


# One fault each


class Kept(Checkpoint):
    """Keeps the cache across the abort, and drops the branch from its transcript only."""

    def abort(self) -> None:
        self.transcript = list(self.saved[1])


class CropsShort(Crop):
    """Crops one token too few."""

    excess = 1


class CropsLong(Crop):
    """Crops one token too many."""

    excess = -1


class Foreign(Checkpoint):
    """One place for the checkpoint of all sessions: the abort restores that of the session opened last."""

    last: ClassVar[Any] = None

    def open(self, ids: list[int]) -> None:
        super().open(ids)
        Foreign.last = self.saved

    def abort(self) -> None:
        self.saved = Foreign.last
        self.restore()


class Late(Lazy):
    """The abort is put off until the decision, and done after it."""

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        reply = Checkpoint.decide(self, ids, max_new_tokens)
        if self.is_due:
            self.restore()
            self.is_due = False
        return reply


class SavesLate(Checkpoint):
    """The checkpoint is taken when the branch is already in: it restores the branch."""

    def feed(self, ids: list[int]) -> None:
        super().feed(ids)
        self.saved = self.keep()


class Remarks(Checkpoint):
    """The state is restored, and the next turn is fed with a remark in front of it."""

    is_aborted = False

    def abort(self) -> None:
        super().abort()
        self.is_aborted = True

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        return super().decide([*self.ids[1:9], *ids] if self.is_aborted else ids, max_new_tokens)


class Rerenders(Checkpoint):
    """Hands its transcript and the kept cache to `generate`, which compares their lengths and no token."""

    def abort(self) -> None:
        self.ids = list(self.saved[1])

    def decide(self, ids: list[int], max_new_tokens: int) -> list[int]:
        self.ids = [*self.ids, *ids]
        asked = torch.tensor([self.ids])
        with torch.inference_mode():
            out = self.model.generate(
                asked,
                attention_mask=torch.ones_like(asked),
                **{keyword(self.model): self.kv},
                max_new_tokens=max_new_tokens,
                do_sample=False,
                eos_token_id=sorted(self.ends),
                pad_token_id=0,
            )
        reply: list[int] = out[0, len(self.ids) :].tolist()
        self.ids += reply[:-1]
        return reply


class Recorded(Crop):
    """Crops a hybrid cache as its library asks, which reports success and leaves the recurrent state as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = DynamicCache(config=self.model.config)
        self.kv.activate_past_recording()


class StaticKept(Static):
    """A static cache is kept across the abort."""

    def abort(self) -> None:
        self.transcript = list(self.saved[1])


class StaticShort(Static):
    """A static cache is cropped one token too few."""

    excess = 1


# No sessions


class ForgetsItsStart(Checkpoint):
    """Loses the first half of what it is opened with."""

    def open(self, ids: list[int]) -> None:
        super().open(ids[len(ids) // 2 :])


class Deaf(Checkpoint):
    """Never lets a branch in, so that there is nothing to abort."""

    def feed(self, ids: list[int]) -> None:
        pass


def of(session: type[Checkpoint], engine: Any, *, tells: bool = True, shows: bool = True, lies: bool = False) -> Any:
    """The class on an engine's own model, without a word or without a cache to show, or with a false word."""

    class Bound(session):  # type: ignore[misc, valid-type]
        model = engine._model
        ends = engine._eos_ids

        def tokens(self) -> list[int] | None:
            if lies:
                return list(self.saved[1]) if len(self.ids) >= len(self.saved[1]) else list(self.ids)
            return super().tokens() if tells else None

        def cache(self) -> Any:
            return super().cache() if shows else None

    Bound.__name__ = session.__name__
    return Bound
