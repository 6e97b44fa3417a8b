"""How ids get into a cache: by our own forward, by the framework's defaults, or by its `generate`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from workers.engine.base import Path
from workers.engine.cache import CacheKind
from workers.engine.choice import Choice
from workers.engine.generation import generate
from workers.engine.handle import CacheHandle, Lender
from workers.engine.masking import attention_mask
from workers.engine.memory import memory_errors
from workers.engine.rope import RopeLimit
from workers.errors import Unsupported


class Passes:
    """One model's passes on one path, each held to the ledger before and after."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._kind = CacheKind.of(model)
        self._rope = RopeLimit.of(model.config.get_text_config(decoder=True))
        self._path: Path = "explicit"
        parameters = inspect.signature(model.forward).parameters
        self._has_positions = "position_ids" in parameters
        self._can_keep_last = "logits_to_keep" in parameters

    def _reply(self, handle: CacheHandle, choice: Choice, max_new_tokens: int) -> None:
        """Let `choice` take one token after the other, up to the end of the sequence or of the budget."""
        if self._path == "generate":
            self._generate_reply(handle, choice, max_new_tokens)
            return
        self._flush(handle)
        self._step_reply(handle, choice, max_new_tokens)

    def _step_reply(self, handle: CacheHandle, choice: Choice, max_new_tokens: int) -> None:
        while len(choice.tokens) < max_new_tokens:
            token = choice.take(known(handle))
            if choice.is_ended or len(choice.tokens) == max_new_tokens:
                return
            self._feed(handle, (token,))

    def _reply_along(self, handle: CacheHandle, choice: Choice, max_new_tokens: int, ids: Sequence[int]) -> None:
        """As `_reply`, of a greedy choice that may go along `ids`: they are fed at once, and kept as far as it goes.

        Only where logits are proven to be the same in one pass as in steps.
        """
        self._flush(handle)
        size, fed = len(handle.ids), tuple(ids[: max_new_tokens - 1])
        rows = [known(handle)[None], *([self._feed(handle, fed, keeps_all=True)] if fed else [])]
        num_kept = 0
        for at, row in enumerate(torch.cat(rows)):
            token = choice.take(row)
            if choice.is_ended or len(choice.tokens) == max_new_tokens:
                return
            num_kept = at
            if at == len(fed) or token != fed[at]:
                break
        if num_kept < len(fed):
            handle.cache = self._kind.crop(handle.cache, size + len(fed), size + num_kept)
            del handle.ids[size + num_kept :]
        self._feed(handle, choice.tokens[-1:])
        self._step_reply(handle, choice, max_new_tokens)

    def _generate_reply(self, handle: CacheHandle, choice: Choice, max_new_tokens: int) -> None:
        if not handle.num_queued:
            # `generate` must have something to feed: the first token, which is known already.
            token = choice.take(known(handle))
            if choice.is_ended or max_new_tokens == 1:
                return
            queue(handle, (token,))
        self._generate(handle, choice, max_new_tokens - len(choice.tokens))

    def _generate(self, handle: CacheHandle, choice: Choice, num_tokens: int) -> None:
        self._rope.check_feed(handle.num_held, len(handle.ids) + num_tokens - 1)
        self._kind.check(handle.cache, handle.num_held)
        handle.logits = generate(self._model, self._kind.keyword, handle, choice, num_tokens)
        self._kind.check(handle.cache, handle.num_held)

    def _settle(self, handle: CacheHandle) -> None:
        """Encode what waits, on this engine's path, or have it lent."""
        if handle.num_queued and handle.lender is not None:
            self._borrow(handle, handle.lender)
        elif handle.num_queued and self._path == "generate":
            self._generate(handle, Choice(None, frozenset()), 1)
        self._flush(handle)

    def _borrow(self, handle: CacheHandle, lender: Lender) -> None:
        """Have what waits copied into the cache, if the lender has it, as if it had been fed."""
        self._kind.check(handle.cache, handle.num_held)
        if lender.lend(handle):
            handle.num_fed.append(handle.num_queued)
            handle.num_queued = 0
            self._kind.check(handle.cache, handle.num_held)

    def _flush(self, handle: CacheHandle) -> None:
        """Encode what waits, by a forward pass."""
        if handle.num_queued:
            waiting = handle.ids[handle.num_held :]
            del handle.ids[handle.num_held :]
            handle.num_queued = 0
            self._feed(handle, waiting)

    def _feed(self, handle: CacheHandle, ids: Sequence[int], *, keeps_all: bool = False) -> Tensor:
        """Feed and return rows of logits, `[num_rows, vocab]` in float32: one for each id, or only the last."""
        self._rope.check_feed(len(handle.ids), len(handle.ids) + len(ids))
        is_split = self._kind.is_tokenwise and handle.ids and self._path != "default"
        steps = [[token] for token in ids] if is_split else [list(ids)]
        rows = [self._forward(handle, step, keeps_all) for step in steps]
        handle.logits = rows[-1][-1]
        return torch.cat(rows) if keeps_all else rows[-1]

    def _forward(self, handle: CacheHandle, ids: list[int], keeps_all: bool) -> Tensor:
        start = len(handle.ids)
        self._kind.check(handle.cache, start)
        inputs = {"input_ids": torch.tensor([ids], device=self._model.device), self._kind.keyword: handle.cache}
        if self._path == "default" and handle.hidden:
            raise Unsupported("the framework's default path takes no mask")
        if self._path != "default":
            inputs |= self._explicit(handle, start, len(ids), keeps_all)
        with torch.inference_mode(), memory_errors():
            logits: Tensor = self._model(**inputs, use_cache=True).logits[0]
            rows = (logits if keeps_all else logits[-1:]).float()
        handle.ids.extend(ids)
        handle.num_fed.append(len(ids))
        self._kind.check(handle.cache, len(handle.ids))
        if rows[-1].isnan().any():
            raise FloatingPointError("the model's logits are not numbers")
        return rows

    def _explicit(self, handle: CacheHandle, start: int, num_new: int, keeps_all: bool) -> dict[str, Any]:
        """What the explicit path says and the default path leaves to the framework."""
        device = self._model.device
        inputs: dict[str, Any] = {}
        if self._has_positions:
            # Left out, some models (Bamba) count from zero again.
            inputs["position_ids"] = torch.arange(start, start + num_new, device=device)[None]
        if self._can_keep_last:
            inputs["logits_to_keep"] = 0 if keeps_all else 1
        if handle.hidden:
            inputs["attention_mask"] = attention_mask(start + num_new, handle.hidden, device)
        return inputs


def queue(handle: CacheHandle, ids: Sequence[int], lender: Lender | None = None) -> None:
    """Let ids wait to be fed, or to be lent; nothing waits yet."""
    handle.ids.extend(ids)
    handle.num_queued = len(ids)
    handle.lender = lender


class Predicting(Protocol):
    """A state that may know what comes next."""

    @property
    def logits(self) -> Tensor | None:
        """`[vocab]`, after the last id."""


def known(state: Predicting) -> Tensor:
    """The prediction after the last id, `[vocab]` in float32.

    Raises:
        ValueError: there is none.
    """
    if state.logits is None:
        raise ValueError("a cropped or masked handle predicts nothing until it is fed")
    return state.logits
