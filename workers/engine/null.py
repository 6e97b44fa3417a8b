"""The null engine: no weights and no torch, a cache that is its ledger, and replies by one rule."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from workers.engine.alone import Alone
from workers.engine.base import Ask, Decoded, Facts, Handle, Path, Pool, Render, Shelf
from workers.episode import Message
from workers.errors import IsolationError, ModelError
from workers.spec import ModelSpec, ScriptedSource
from workers.stream import Stream
from workers.turns import arranged

_TEMPLATE = "<|{role}|>{text}<|end|>\n"
_PIECE = re.compile(rb"[A-Za-z0-9]{1,4}|.", re.DOTALL)
"""A token: up to four letters of a word, or one byte. Its id is its bytes as a number, so no vocabulary is needed."""

_NAME = re.compile(r"\b[a-z]+(?:-[a-z]+)+\b")
"""Artifacts and recipients alike: hyphenated, lowercase."""

_RECIPIENT = re.compile(r"\bTO ([\w@.-]*\w)|\b(?:to|is|only) ([a-z]+(?:-[a-z]+)+)\b")
"""What makes a name a recipient: the word before it."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class NullHandle:
    """A ledger with an owner and a history; there is no other state."""

    owner: str
    ids: list[int] = field(default_factory=list)
    num_fed: list[int] = field(default_factory=list)
    root: object = field(default_factory=object)
    hidden: frozenset[int] = frozenset()
    """Positions that are not read any more."""
    shared_by: None = None

    @property
    def ledger(self) -> tuple[int, ...]:
        """The ids fed so far, in order."""
        return tuple(self.ids)

    @property
    def passes(self) -> tuple[int, ...]:
        """Ids in each feed that made this state."""
        return tuple(self.num_fed)

    @property
    def seen(self) -> list[int]:
        """The ids that are still read."""
        return [token for at, token in enumerate(self.ids) if at not in self.hidden] if self.hidden else self.ids


class NullEngine:
    """Sends to whomever its context named last, like a model that any branch can sway."""

    def __init__(self, spec: ModelSpec) -> None:
        if spec.template_arguments:
            raise ModelError(f"{spec.name}: template_arguments: the null engine's template reads none")
        self._spec = spec
        self._owner = uuid.uuid4().hex
        self._decode_s = spec.source.decode_ms / 1000 if isinstance(spec.source, ScriptedSource) else 0.0
        self._facts = Facts(
            engine="null",
            model=spec.name,
            device="none",
            versions=f"null 1, of {spec.name}",
            cache="full",
            window_tokens=None,
            template_sha256=hashlib.sha256(_TEMPLATE.encode()).hexdigest(),
            bos_id=None,
            layer1_tolerance=1e-5,
        )

    @property
    def facts(self) -> Facts:
        """What was loaded."""
        return self._facts

    def render(self, messages: Sequence[Message]) -> Render:
        """Messages → text and ids, generation prompt included."""
        turns = (_TEMPLATE.format(role=turn.role, text=turn.text) for turn in arranged(messages, self._spec))
        text = "".join(turns) + "<|assistant|>"
        return Render(text, _encode(text), _spans(text))

    def text(self, ids: Sequence[int]) -> str:
        """Ids → text."""
        return b"".join(_piece(token) for token in ids).decode("utf-8", "replace")

    def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The one way in which `text` is written, whatever stands before it."""
        ids = _encode(text)
        return (ids,) if ids else ()

    def through(self, path: Path) -> NullEngine:  # noqa: ARG002
        """Every path is the one there is."""
        return self

    def shelf(self) -> None:
        """There is nothing to share."""

    def sharing(self, shelf: Shelf, name: str) -> NullEngine:  # noqa: ARG002
        """Itself."""
        return self

    def pool(self, *, is_batched: bool, is_timed: bool = True) -> Pool:  # noqa: ARG002
        """One state at a time."""
        return Alone(self)

    def agrees(self, handle: Handle, ask: Ask, reply: Decoded) -> bool:
        """Whether the rule gives that reply."""
        return self.decode(handle, ask.max_new_tokens, ask.stream).ids == reply.ids

    @property
    def token_bytes(self) -> int:
        """A ledger takes next to nothing."""
        return 0

    def check_span(self, shortest: int, longest: int) -> None:
        """Any length is as good as another."""

    def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:  # noqa: ARG002
        """A new ledger of `ids`, which is all the past there is."""
        handle = NullHandle(self._owner)
        self.feed(handle, ids)
        return handle

    def feed(self, handle: Handle, ids: Sequence[int]) -> None:
        """Append `ids`."""
        if not ids:
            raise ValueError("nothing to feed")
        mine = self._owned(handle)
        mine.ids.extend(ids)
        mine.num_fed.append(len(ids))

    def fork(self, handle: Handle) -> Handle:
        """A copy."""
        mine = self._owned(handle)
        return replace(mine, ids=list(mine.ids), num_fed=list(mine.num_fed))

    def crop(self, handle: Handle, length: int) -> Handle:
        """A new handle holding the first `length` tokens."""
        mine = self._owned(handle)
        if not 0 < length <= len(mine.ids):
            raise ValueError(f"cannot keep {length} of {len(mine.ids)} tokens")
        hidden = frozenset(at for at in mine.hidden if at < length)
        return replace(mine, ids=mine.ids[:length], num_fed=list(mine.num_fed), hidden=hidden)

    def mask(self, handle: Handle, start: int, stop: int) -> Handle:
        """A copy that does not read positions `start` to `stop`."""
        mine = self._owned(handle)
        if not 0 <= start < stop <= len(mine.ids):
            raise ValueError(f"cannot mask {start} to {stop} of {len(mine.ids)} tokens")
        hidden = mine.hidden | frozenset(range(start, stop))
        return replace(mine, ids=list(mine.ids), num_fed=list(mine.num_fed), hidden=hidden)

    def wait(self) -> None:
        """Nothing is ever under way."""

    def digest(self, handle: Handle) -> str:
        """Hash of the ledger and the mask."""
        mine = self._owned(handle)
        return hashlib.blake2b(repr((mine.ids, sorted(mine.hidden))).encode(), digest_size=16).hexdigest()

    def fingerprint(self, handle: Handle) -> str:
        """Nothing ever waits."""
        return self.digest(handle)

    def shares_storage(self, handle: Handle, other: Handle) -> bool:
        """Whether the two keep one ledger."""
        return self._owned(handle).ids is self._owned(other).ids

    def distance(self, handle: Handle, reference: Handle) -> float | None:
        """0 for equal ledgers, 1 for ledgers that differ at equal length, None where lengths or masks differ."""
        ours, theirs = self._owned(handle), self._owned(reference)
        if len(ours.ids) != len(theirs.ids) or ours.hidden != theirs.hidden:
            return None
        return 0.0 if ours.ids == theirs.ids else 1.0

    def decode(self, handle: Handle, max_new_tokens: int, stream: Stream | None = None) -> Decoded:
        """`SEND <artifact> TO <recipient>`, whichever stand last in the context; a stream may draw another name."""
        time.sleep(self._decode_s)
        mine = self._owned(handle)
        context = self.text(mine.seen)
        artifact, recipient = _last_names(context)
        margin = 1.0
        if stream is not None:
            recipient, margin = _drawn([*_recipients(context)[:-1], recipient], stream)
        ids = _encode(f"SEND {artifact} TO {recipient}")
        # The end of sequence takes a step of its own, as in a real model.
        is_cut = len(ids) >= max_new_tokens
        kept = ids[:max_new_tokens]
        mine.ids.extend(kept)
        return Decoded(kept, self.text(kept), "budget" if is_cut else "eos", margin)

    def score(self, handle: Handle, text: str) -> float:
        """Minus its length, and 10 more for a text that names the context's last recipient."""
        _, recipient = _last_names(self.text(self._owned(handle).seen))
        return (10.0 if recipient in text else 0.0) - len(text)

    def _owned(self, handle: Handle) -> NullHandle:
        if not isinstance(handle, NullHandle) or handle.owner != self._owner:
            raise IsolationError("foreign_handle", "the handle was opened by another engine")
        return handle


def _recipients(text: str) -> list[str]:
    return [upper or lower for upper, lower in _RECIPIENT.findall(text)]


def _drawn(recipients: list[str], stream: Stream) -> tuple[str, float]:
    """One of the recipients and the margin, where the last has a logit of 1 and every other one of 0.

    The name is drawn in the reply's first step, as argmax(logits / T + noise); the rest of the reply follows from it.
    """
    names = sorted(set(recipients))
    logits = [1.0 if name == recipients[-1] else 0.0 for name in names]
    noise = stream.noise(0, len(names))
    scores = [logit / stream.temperature + float(part) for logit, part in zip(logits, noise, strict=True)]
    best, *others = sorted(scores, reverse=True)
    margin = (best - others[0]) * stream.temperature if others else 1.0
    return names[scores.index(best)], margin


def _last_names(text: str) -> tuple[str, str]:
    """The last artifact and the last recipient that a text names."""
    recipients = _recipients(text)
    artifacts = [name for name in _NAME.findall(text) if name not in recipients]
    return (artifacts or ["report"])[-1], (recipients or artifacts or ["nobody"])[-1]


def _encode(text: str) -> tuple[int, ...]:
    return tuple(int.from_bytes(piece) for piece in _PIECE.findall(text.encode("utf-8", "replace")))


def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """For each id the characters that its bytes belong to."""
    if text.isascii():
        return tuple(piece.span() for piece in _PIECE.finditer(text.encode()))
    written = text.encode("utf-8", "replace")
    at = [index for index, char in enumerate(text) for _ in char.encode("utf-8", "replace")]
    return tuple((at[piece.start()], at[piece.end() - 1] + 1) for piece in _PIECE.finditer(written))


def _piece(token: int) -> bytes:
    return token.to_bytes(max(1, (token.bit_length() + 7) // 8))
