"""The engine on torch and transformers: one causal model, its caches and their ledgers."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Sequence

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from workers.engine import cache as kv
from workers.engine.base import Decoded, Facts, Handle, Path, Render
from workers.engine.chat import Chat
from workers.engine.handle import CacheHandle, owned
from workers.engine.memory import memory_errors
from workers.engine.rope import RopeLimit
from workers.episode import Message
from workers.errors import ModelError, Unsupported
from workers.stream import Stream

_PROBE = """The parcel reached the harbour at noon, and the clerk wrote down the weight, the sender and the day.
Nobody asked why it was late; rain had closed the upper road for most of the week. """
_PROBE_TOKENS = 64
_HONEST_LIMIT = 1e-2
"""Two float32 passes that lie further apart mean that the model computes a continuation wrongly."""


class CausalEngine:
    """A loaded causal language model. Batch 1, explicit positions, no mask (DESIGN §4.5, §4.6)."""

    def __init__(self, model: PreTrainedModel, chat: Chat) -> None:
        self._model = model
        self._chat = chat
        self._kind = kv.CacheKind.of(model)
        self._rope = RopeLimit.of(model.config.get_text_config(decoder=True))
        self._owner = uuid.uuid4().hex
        parameters = inspect.signature(model.forward).parameters
        self._has_positions = "position_ids" in parameters
        self._can_keep_last = "logits_to_keep" in parameters
        self._eos_ids = _eos_ids(model, chat)
        self._facts = Facts(
            engine="transformers",
            model=chat.model.name,
            device=_device(model),
            versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
            cache=self._kind.family,
            window_tokens=self._kind.window_tokens,
            template_sha256=chat.template_sha256,
            bos_id=chat.bos_id,
            layer1_tolerance=max(1e-5, 10 * self._noise()),
        )

    @property
    def facts(self) -> Facts:
        """What was loaded, and how far apart two honest passes lie on it."""
        return self._facts

    def through(self, path: Path) -> CausalEngine:
        """The same model, called another way."""
        if path != "explicit":
            raise Unsupported(f"this engine is not called in the way {path!r}")
        return self

    def render(self, messages: Sequence[Message]) -> Render:
        """Messages → text and ids, generation prompt included."""
        return self._chat.render(messages)

    def text(self, ids: Sequence[int]) -> str:
        """Ids → text, special tokens kept."""
        return self._chat.text(ids)

    def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The ways the tokenizer may write `text`."""
        return self._chat.segmentations(text)

    def check_span(self, shortest: int, longest: int) -> None:
        """Make sure that no rotary switch lies between the two lengths."""
        self._rope.check_span(shortest, longest)

    def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:
        """A new cache filled by one pass over `ids`."""
        cache = self._kind.new_recording() if records_past else self._kind.new()
        handle = CacheHandle(self._owner, cache, records_past=records_past)
        self.feed(handle, ids)
        return handle

    def feed(self, handle: Handle, ids: Sequence[int]) -> None:
        """Append `ids` to the handle's cache, in place, and check the ledger."""
        self._feed(owned(handle, self._owner), ids)

    def fork(self, handle: Handle) -> Handle:
        """A copy that shares no storage with `handle`."""
        return self._fork(owned(handle, self._owner))

    def crop(self, handle: Handle, length: int) -> Handle:
        """A new handle holding the first `length` tokens, whose logits are unknown until it is fed."""
        mine = owned(handle, self._owner)
        size = len(mine.ids)
        if not 0 < length <= size:
            raise ValueError(f"cannot keep {length} of {size} tokens")
        self._rope.check_crop(size, length)
        cropped = self._kind.crop(mine.cache, size, length, is_guarded=not mine.records_past)
        return CacheHandle(
            self._owner,
            cropped,
            mine.ids[:length],
            num_fed=list(mine.num_fed),
            root=mine.root,
            records_past=mine.records_past,
        )

    def digest(self, handle: Handle) -> str:
        """Hash of the cache's bytes and the ledger."""
        mine = owned(handle, self._owner)
        return kv.digest(mine.cache, mine.ids)

    def shares_storage(self, handle: Handle, other: Handle) -> bool:
        """Whether any state tensor of the two lies in the same memory."""
        ours, theirs = owned(handle, self._owner), owned(other, self._owner)
        return not kv.storages(ours.cache).isdisjoint(kv.storages(theirs.cache))

    def distance(self, handle: Handle, reference: Handle) -> float | None:
        """Largest over tensors of max|a−b| / max|b|; None where lengths differ."""
        ours, theirs = owned(handle, self._owner), owned(reference, self._owner)
        if len(ours.ids) != len(theirs.ids):
            return None
        return kv.distance(ours.cache, theirs.cache)

    def mask(self, handle: Handle, start: int, stop: int) -> Handle:  # noqa: ARG002
        """Refused."""
        raise Unsupported("this engine cannot mask positions")

    def decode(self, handle: Handle, max_new_tokens: int, stream: Stream | None = None) -> Decoded:
        """Greedy reply after the last fed token; the handle is consumed."""
        if stream is not None:
            raise Unsupported("this engine draws no samples")
        mine = owned(handle, self._owner)
        ids: list[int] = []
        margins: list[float] = []
        while len(margins) < max_new_tokens:
            logits = _known(mine)
            best, second = logits.topk(2).values.tolist()
            margins.append(best - second)
            token = int(logits.argmax())
            if token in self._eos_ids:
                return self._decoded(ids, margins, is_ended=True)
            ids.append(token)
            if len(ids) < max_new_tokens:
                self._feed(mine, (token,))
        return self._decoded(ids, margins, is_ended=False)

    def score(self, handle: Handle, text: str) -> float:
        """Log-probability (nats) of `text` as the continuation; the handle is not touched."""
        mine = owned(handle, self._owner)
        ids = self._chat.encode(text)
        if not ids:
            raise ValueError("cannot score an empty text")
        rows = [_known(mine)[None]]
        if len(ids) > 1:
            rows.append(self._feed(self._fork(mine), ids[:-1], keeps_all=True))
        logprobs = torch.cat(rows).log_softmax(-1)
        return float(logprobs.gather(1, torch.tensor(ids, device=logprobs.device)[:, None]).sum())

    def _fork(self, handle: CacheHandle) -> CacheHandle:
        # Logits are replaced, never written to, so sharing that row shares no state.
        return CacheHandle(
            self._owner,
            kv.fork(handle.cache),
            list(handle.ids),
            handle.logits,
            list(handle.num_fed),
            handle.root,
            handle.records_past,
        )

    def _feed(self, handle: CacheHandle, ids: Sequence[int], *, keeps_all: bool = False) -> Tensor:
        """Feed and return rows of logits, `[num_rows, vocab]` in float32: one for each id, or only the last."""
        if not ids:
            raise ValueError("nothing to feed")
        self._rope.check_feed(len(handle.ids), len(handle.ids) + len(ids))
        is_split = self._kind.is_tokenwise and handle.ids
        steps = [[token] for token in ids] if is_split else [list(ids)]
        rows = [self._forward(handle, step, keeps_all) for step in steps]
        handle.logits = rows[-1][-1]
        return torch.cat(rows) if keeps_all else rows[-1]

    def _forward(self, handle: CacheHandle, ids: list[int], keeps_all: bool) -> Tensor:
        start, device = len(handle.ids), self._model.device
        self._kind.check(handle.cache, start)
        inputs = {"input_ids": torch.tensor([ids], device=device), self._kind.keyword: handle.cache}
        if self._has_positions:
            # Left out, some models (Bamba) count from zero again.
            inputs["position_ids"] = torch.arange(start, start + len(ids), device=device)[None]
        if self._can_keep_last:
            inputs["logits_to_keep"] = 0 if keeps_all else 1
        with torch.inference_mode(), memory_errors():
            rows: Tensor = self._model(**inputs, use_cache=True).logits[0].float()
        handle.ids.extend(ids)
        handle.num_fed.append(len(ids))
        self._kind.check(handle.cache, len(handle.ids))
        if rows[-1].isnan().any():
            raise FloatingPointError("the model's logits are not numbers")
        return rows

    def _noise(self) -> float:
        """Distance between a one-pass and a two-chunk pass over a fixed text.

        Raises:
            ModelError: so large that Layer 1 could not tell a leak from noise.
        """
        ids = self._chat.encode(_PROBE * 8)[: min(_PROBE_TOKENS, self._rope.limit or _PROBE_TOKENS)]
        # Kernels work in tiles: a cut at a multiple of 16 can be exact where every other cut is off by 4e-2 (bfloat16).
        cut = len(ids) * 2 // 3 | 1
        whole, parts = self.prefill(ids), self.prefill(ids[:cut])
        self.feed(parts, ids[cut:])
        noise = self.distance(parts, whole)
        if noise is None or (self._model.dtype == torch.float32 and noise > _HONEST_LIMIT):
            raise ModelError(f"two passes over the same tokens differ by {noise}: this model cannot continue a cache")
        return noise

    def _decoded(self, ids: list[int], margins: list[float], *, is_ended: bool) -> Decoded:
        text = self._chat.text(ids, keeps_special=False)
        return Decoded(tuple(ids), text, "eos" if is_ended else "budget", min(margins))


def _known(handle: CacheHandle) -> Tensor:
    if handle.logits is None:
        raise ValueError("a cropped handle predicts nothing until it is fed")
    return handle.logits


def _eos_ids(model: PreTrainedModel, chat: Chat) -> frozenset[int]:
    listed = getattr(model.generation_config, "eos_token_id", None)
    ids = listed if isinstance(listed, (list, tuple)) else (listed,)
    return frozenset(token for token in (*ids, chat.eos_id) if token is not None)


def _device(model: PreTrainedModel) -> str:
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    return f"{model.device.type}, {torch.get_num_threads()} threads"
