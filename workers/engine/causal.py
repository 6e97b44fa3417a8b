"""The engine on torch and transformers: one causal model, its caches and their ledgers."""

from __future__ import annotations

import copy
import inspect
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from workers.engine import cache as kv
from workers.engine import kernels
from workers.engine.alone import Alone
from workers.engine.base import Ask, Decoded, Facts, Handle, Path, Pool, Render, Shelf
from workers.engine.batch import Batch, KeysAndValues, can_batch, layers_of
from workers.engine.chat import Chat
from workers.engine.choice import Choice, eos_ids
from workers.engine.device import name_of
from workers.engine.handle import CacheHandle, Lender, owned
from workers.engine.masking import PROVEN_ATTENTION, clipped, joined
from workers.engine.memory import memory_errors
from workers.engine.passes import Passes, known, queue
from workers.engine.pool.batched import Batched, Means, bounds
from workers.engine.pool.choosing import follows, is_whole
from workers.engine.pool.noise import Proof
from workers.engine.pool.state import State
from workers.engine.proofs import PROBE, PROBE_TOKENS, MaskTrial, continues, refuses
from workers.engine.shelf.prefills import Prefills
from workers.episode import Message
from workers.errors import ModelError, Unsupported
from workers.stream import Stream

_HONEST_LIMIT = 1e-2
"""Two float32 passes that lie further apart mean that the model computes a continuation wrongly."""


class CausalEngine(Passes):
    """A loaded causal language model. Batch 1; its own path gives positions and, unless one is asked for, no mask."""

    def __init__(self, model: PreTrainedModel, chat: Chat) -> None:
        super().__init__(model)
        self._chat = chat
        self._owner = uuid.uuid4().hex
        self._lender: Lender | None = None
        self._refusals: dict[str, str] = {}
        devices = {parameter.device for parameter in model.parameters()}
        self._accelerators = [device for device in devices if device.type != "cpu"]
        self._eos_ids = eos_ids(model, chat.eos_id)
        self._facts = Facts(
            engine="transformers",
            model=chat.model.name,
            device=name_of(model),
            versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
            cache=self._kind.family,
            window_tokens=self._kind.window_tokens,
            template_sha256=chat.template_sha256,
            bos_id=chat.bos_id,
            layer1_tolerance=self._tolerance(),
            kernels="invariant" if kernels.is_installed(model) else "stock",
        )
        self._batches = Proof(self._facts.layer1_tolerance, rounding=kernels.rounding(model))

    @property
    def facts(self) -> Facts:
        """What was loaded, and how far apart two honest passes lie on it."""
        return self._facts

    def render(self, messages: Sequence[Message]) -> Render:
        """Messages → text and ids, generation prompt included."""
        return self._chat.render(messages)

    def text(self, ids: Sequence[int]) -> str:
        """Ids → text, special tokens kept."""
        return self._chat.text(ids)

    def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The ways the tokenizer may write `text`."""
        return self._chat.segmentations(text)

    def shelf(self) -> Shelf | None:
        """An empty shelf; None where states are not computed in batches."""
        if not can_batch(self._model, self._kind):
            return None
        means, one = self._means(), layers_of(self._one_token)
        return Prefills.of(means.new_batch, means.prefill, one, self._facts.layer1_tolerance, means.limit)

    def sharing(self, shelf: Shelf, name: str) -> CausalEngine:
        """The same model; what the class has on the shelf is copied from there."""
        if self._path != "explicit" or not isinstance(shelf, Prefills):
            return self
        other = copy.copy(self)
        other._lender = shelf.part(name)
        return other

    def pool(self, *, is_batched: bool, is_timed: bool = True) -> Pool:
        """A new pool; one state at a time, where the model's states cannot stand side by side."""
        if not is_batched or self._path != "explicit" or not can_batch(self._model, self._kind):
            is_stepped = is_timed or self._path != "explicit" or not self._is_exact
            return Alone(self, None if is_stepped else self._decode_along)
        return Batched(self._means(), self._batches, bounds(self._model.device))

    def agrees(self, handle: Handle, ask: Ask, reply: Decoded) -> bool:
        """Whether decoding this state alone gives that reply: from one pass over it, unless that leaves a doubt."""
        mine = owned(handle, self._owner)
        if self._path == "explicit" and not self._kind.is_tokenwise:
            spare = self._fork(mine)
            verdict = self._forced(mine, ask, reply)
            if verdict is not None:
                return verdict
            mine = spare
        alone = self.decode(mine, ask.max_new_tokens, ask.stream)
        return (alone.ids, alone.stop) == (reply.ids, reply.stop)

    @cached_property
    def token_bytes(self) -> int:
        """Bytes of keys and values that one more token takes."""
        held, sides = kv.tensors(self._one_token.cache), ("keys", "values")
        return sum(tensor.nbytes for name, tensor in held if name.rpartition(".")[2] in sides)

    def check_span(self, shortest: int, longest: int) -> None:
        """Make sure that no rotary switch lies between the two lengths."""
        self._rope.check_span(shortest, longest)

    @memory_errors()
    def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:
        """A new cache filled by one pass over `ids`."""
        cache = self._kind.new_recording() if records_past else self._kind.new()
        handle = CacheHandle(self._owner, cache, records_past=records_past)
        self.feed(handle, ids)
        return handle

    @memory_errors()
    def feed(self, handle: Handle, ids: Sequence[int]) -> None:
        """Append `ids` to the handle's cache, in place, and check the ledger."""
        if not ids:
            raise ValueError("nothing to feed")
        mine = self._looked_at(handle)
        is_new, lender = not mine.ids, None if mine.records_past else self._lender
        queue(mine, ids, lender)
        if is_new or not (lender or self._path == "generate"):
            self._settle(mine)

    def through(self, path: Path) -> CausalEngine:
        """The same model and the same handles, on another path through the framework."""
        if path == self._path:
            return self
        other = copy.copy(self)
        other._path, other._lender = path, None
        if path != "explicit":
            self._once(path, other._prove_path)
        return other

    @memory_errors()
    def fork(self, handle: Handle) -> Handle:
        """A copy that shares no storage with `handle`."""
        return self._fork(owned(handle, self._owner))

    @memory_errors()
    def crop(self, handle: Handle, length: int) -> Handle:
        """A new handle holding the first `length` tokens, whose logits are unknown until it is fed."""
        mine = self._looked_at(handle)
        size = len(mine.ids)
        if not 0 < length <= size:
            raise ValueError(f"cannot keep {length} of {size} tokens")
        self._rope.check_crop(size, length)
        cropped = self._kind.crop(mine.cache, size, length, is_guarded=not mine.records_past)
        hidden = clipped(mine.hidden, length)
        return self._derived(mine, cropped, ids=mine.ids[:length], logits=None, hidden=hidden)

    @memory_errors()
    def mask(self, handle: Handle, start: int, stop: int) -> Handle:
        """A new handle in which `start` to `stop` get no attention, whose logits are unknown until it is fed."""
        mine = self._looked_at(handle)
        if not 0 <= start < stop <= len(mine.ids):
            raise ValueError(f"cannot mask {start} to {stop} of {len(mine.ids)} tokens")
        if self._path == "default":
            raise Unsupported("the framework's default path takes no mask")
        self._once("mask", self._prove_mask)
        return self._hidden(mine, start, stop)

    def wait(self) -> None:
        """Return once every device of the model is idle; a CPU is whenever a call returns."""
        for device in self._accelerators:
            torch.accelerator.synchronize(device)

    @memory_errors()
    def digest(self, handle: Handle) -> str:
        """Hash of the cache's bytes, the ledger and the mask."""
        mine = self._looked_at(handle)
        return kv.digest(mine.cache, (mine.ids, mine.hidden))

    @memory_errors()
    def fingerprint(self, handle: Handle) -> str:
        """Hash of the cache's bytes, the ledger, the mask, and the prediction or what waits in its place."""
        mine = owned(handle, self._owner)
        predicted = None if mine.num_queued or mine.logits is None else mine.logits.cpu().numpy().tobytes()
        return kv.digest(mine.cache, (mine.ids, mine.hidden, mine.num_queued, predicted))

    @memory_errors()
    def shares_storage(self, handle: Handle, other: Handle) -> bool:
        """Whether any state tensor of the two lies in the same memory."""
        # What waits has no memory yet, and encoding it would move the rest out of what the two share.
        ours, theirs = owned(handle, self._owner), owned(other, self._owner)
        return not kv.storages(ours.cache).isdisjoint(kv.storages(theirs.cache))

    @memory_errors()
    def distance(self, handle: Handle, reference: Handle) -> float | None:
        """Largest over tensors of max|a−b| / max|b|; None where lengths or masks differ."""
        ours, theirs = self._looked_at(handle), self._looked_at(reference)
        if len(ours.ids) != len(theirs.ids) or ours.hidden != theirs.hidden:
            return None
        return kv.distance(ours.cache, theirs.cache)

    @memory_errors()
    def decode(self, handle: Handle, max_new_tokens: int, stream: Stream | None = None) -> Decoded:
        """The reply after the last fed token; the handle is consumed."""
        mine = owned(handle, self._owner)
        choice = Choice(stream, self._eos_ids)
        self._reply(mine, choice, max_new_tokens)
        return self._decoded(choice)

    @memory_errors()
    def score(self, handle: Handle, text: str) -> float:
        """Log-probability (nats) of `text` as the continuation; the handle is not touched."""
        mine = owned(handle, self._owner)
        ids = self._chat.encode(text)
        if not ids:
            raise ValueError("cannot score an empty text")
        state = self._fork(mine) if mine.num_queued or len(ids) > 1 else mine
        self._flush(state)
        rows = [known(state)[None]]
        if len(ids) > 1:
            rows.append(self._feed(state, ids[:-1], keeps_all=True))
        logprobs = torch.cat(rows).log_softmax(-1)
        return float(logprobs.gather(1, torch.tensor(ids, device=logprobs.device)[:, None]).sum())

    @memory_errors()
    def _decode_along(self, handle: Handle, ask: Ask, text: str) -> Decoded:
        mine, choice = owned(handle, self._owner), Choice(None, self._eos_ids)
        ids = () if mine.records_past else self._chat.encode(text)
        self._reply_along(mine, choice, ask.max_new_tokens, ids)
        return self._decoded(choice)

    def _means(self) -> Means:
        alone = copy.copy(self)
        alone._lender = None
        return Means(
            engine=alone,
            prefill=lambda ids: owned(alone.prefill(ids), self._owner),
            feed=alone._feed,
            fork=alone._fork,
            new_batch=partial(Batch, self._model, self._kind.keyword),
            token_bytes=self.token_bytes,
            vocab_size=self._kind.config.vocab_size,
            eos_ids=self._eos_ids,
            limit=self._rope.limit,
            owned=self._lent,
            encode=self._chat.encode,
            decoded=self._decoded,
            restored=self._restored,
            few_layers=partial(kernels.shallow, self._model) if self._is_exact else None,
        )

    def _lent(self, handle: Handle) -> CacheHandle:
        mine = owned(handle, self._owner)
        if mine.num_queued and mine.lender is not None:
            self._borrow(mine, mine.lender)
        return mine

    def _restored(self, state: State, layers: Sequence[KeysAndValues]) -> CacheHandle:
        return state.handle(self._owner, self._kind.new(), layers)

    def _decoded(self, choice: Choice) -> Decoded:
        text = self._chat.text(choice.ids, keeps_special=False)
        return Decoded(choice.ids, text, "eos" if choice.is_ended else "budget", min(choice.margins))

    @memory_errors()
    def _forced(self, handle: CacheHandle, ask: Ask, reply: Decoded) -> bool | None:
        """Whether one pass over the reply chooses it, token for token; None where a choice lies within the noise."""
        if not is_whole(reply, ask.max_new_tokens):
            return False
        self._flush(handle)
        rows, fed = [known(handle)[None]], reply.ids if reply.stop == "eos" else reply.ids[:-1]
        if fed:
            rows.append(self._feed(handle, fed, keeps_all=True))
        return follows(torch.cat(rows), Choice(ask.stream, self._eos_ids), reply.ids, self._chunk_noise)

    @cached_property
    def _chunk_noise(self) -> float:
        """Largest difference of a logit between one pass over some ids and a pass for each."""
        if self._is_exact:
            return 0.0
        ids = self._probe()
        cut = len(ids) - min(8, len(ids) // 2)
        whole, steps = (owned(self.prefill(ids[:cut]), self._owner) for _ in range(2))
        stepped = torch.cat([self._feed(steps, (token,)) for token in ids[cut:]])
        gap = (self._feed(whole, ids[cut:], keeps_all=True) - stepped).abs().max()
        return max(float(gap), self._batches.rounding * float(stepped.abs().max()))

    def _looked_at(self, handle: Handle) -> CacheHandle:
        """The handle with nothing waiting: whoever looks at a state sees all of it encoded."""
        mine = owned(handle, self._owner)
        self._settle(mine)
        return mine

    def _derived(self, parent: CacheHandle, cache: Any, **changes: Any) -> CacheHandle:
        """Another state of the same descent, on a cache of its own."""
        own = {"ids": list(parent.ids), "num_fed": list(parent.num_fed)}
        return replace(parent, cache=cache, **own | changes)

    def _fork(self, handle: CacheHandle) -> CacheHandle:
        # Logits are replaced, never written to, so sharing that row shares no state.
        return self._derived(handle, kv.fork(handle.cache))

    def _hidden(self, handle: CacheHandle, start: int, stop: int) -> CacheHandle:
        # What is known of the next token was predicted with the span in sight.
        hidden = joined(handle.hidden, start, stop)
        return self._derived(handle, kv.fork(handle.cache), logits=None, hidden=hidden)

    def _tolerance(self) -> float:
        """Ten times the distance between two honest passes, or 1e-5.

        Raises:
            ModelError: so large that Layer 1 could not tell a leak from noise.
        """
        noise = self._noise()
        if noise is None or (self._model.dtype == torch.float32 and noise > _HONEST_LIMIT):
            raise ModelError(f"two passes over the same tokens differ by {noise}: this model cannot continue a cache")
        return max(1e-5, 10 * noise)

    def _noise(self) -> float | None:
        """Distance between a one-pass and a two-chunk pass over a fixed text; None where they hold other shapes."""
        ids = self._probe()
        # Kernels work in tiles: a cut at a multiple of 16 can be exact where every other cut is off by 4e-2 (bfloat16).
        cut = len(ids) * 2 // 3 | 1
        whole, parts = self.prefill(ids), self.prefill(ids[:cut])
        self.feed(parts, ids[cut:])
        return self.distance(parts, whole)

    @property
    def _is_exact(self) -> bool:
        """Whether a row's bits are proven to be the same in one pass and in several, alone and in a batch."""
        return self._facts.kernels == "invariant"

    @cached_property
    def _one_token(self) -> CacheHandle:
        return owned(self.prefill((0,)), self._owner)

    def _probe(self) -> tuple[int, ...]:
        return self._chat.encode(PROBE * 8)[: min(PROBE_TOKENS, self._rope.limit or PROBE_TOKENS)]

    def _once(self, name: str, proof: Callable[[], None]) -> None:
        """Try something once a model, and remember the refusal.

        Raises:
            Unsupported: it was refused.
        """
        if name not in self._refusals:
            try:
                proof()
            except Unsupported as lack:
                self._refusals[name] = str(lack)
            else:
                self._refusals[name] = ""
        if self._refusals[name]:
            raise Unsupported(self._refusals[name])

    def _prove_path(self) -> None:
        if self._path == "generate" and not self._kind.has_length:
            raise Unsupported("generate cannot tell how much a recurrent cache holds, and feeds all of it again")
        try:
            noise = self._noise()
        except Exception as error:
            raise refuses(error, self._path) from error
        continues(noise, self._facts.layer1_tolerance, self._path)

    def _prove_mask(self) -> None:
        if self._kind.family not in ("full", "sliding", "chunked"):
            raise Unsupported(f"a {self._kind.family} cache cannot be masked: its state keeps what went into it")
        attention = self._model.config._attn_implementation
        if attention not in PROVEN_ATTENTION:
            raise Unsupported(
                f"a mask is not proven under attention={attention}; there is {', '.join(PROVEN_ATTENTION)}"
            )
        if not (self._has_positions and "attention_mask" in inspect.signature(self._model.forward).parameters):
            raise Unsupported(
                "this model's forward takes no mask beside positions, so that a mask would move its tokens"
            )
        trial, plain = MaskTrial(self._probe()), self.through("explicit")
        states = [plain._hidden(owned(plain.prefill(trial.prefix), self._owner), *trial.hidden) for _ in range(3)]
        trial.deface(states[1], trial.hidden)
        trial.deface(states[2], trial.seen)
        clean, behind, beside = (plain._feed(state, trial.rest, keeps_all=True) for state in states)
        trial.judge(clean, behind, beside)
