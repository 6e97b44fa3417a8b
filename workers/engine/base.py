"""What an engine must do, without torch: arms, studies and the worker loop are written against this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from workers.episode import Message
from workers.stream import Stream

Path = Literal["explicit", "default", "generate"]
"""How tokens go through the framework.

`explicit`: `forward` with positions, the audit's own. `default`: `forward` with the ids, the kept cache and nothing
else, as the framework's guide reuses a cache over turns: positions and mask are its to infer. `generate`: the
framework's own loop on the kept cache, given every id that the cache encodes and the new ones behind them, as an
application does that carries `sequences` on.
"""


class Handle(Protocol):
    """One cache and the ledger of the token ids it physically encodes."""

    @property
    def ledger(self) -> tuple[int, ...]:
        """The ids fed so far, in order; as long as the cache, once nothing waits to be fed."""

    @property
    def passes(self) -> tuple[int, ...]:
        """Ids in each forward pass that made this state, its parents' passes included."""

    @property
    def root(self) -> object:
        """The prefill this state descends from: one object for all its copies and crops, by identity."""

    @property
    def shared_by(self) -> str | None:
        """The class on whose part of a shelf its content was found; None where all of it was computed for it alone."""


@dataclass(frozen=True, slots=True)
class Render:
    """A list of messages through the model's chat template, with the generation prompt."""

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] = ()
    """For each id the characters of `text` that it writes, from and up to but without; empty where the tokenizer cannot
    tell. Ids that write one character between them all have it, and some tokenizers leave white space out."""
    is_dated: bool = False
    """Whether it would be another text at another time, as the model's YAML names no day to print."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One reply.

    Attributes:
        ids: reply tokens, without the end-of-sequence token.
        text: the reply, special tokens skipped.
        stop: `eos`, or `budget` when `max_new_tokens` ran out first.
        top2_margin: smallest gap between the best and the second-best logit over the steps; of a drawn reply, between
            the best and the second-best of logits + T × noise.
        opens_in_thinking: the delta ends inside a `<think>` that the reply has to close.
    """

    ids: tuple[int, ...]
    text: str
    stop: Literal["eos", "budget"]
    top2_margin: float
    opens_in_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One reply to decode from a state that holds the delta: greedy, or drawn with `stream`'s noise."""

    max_new_tokens: int
    stream: Stream | None = None


ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a pool read from one state.

    Attributes:
        replies: one for each ask, in order.
        scores: log-probability (nats) of each text as the continuation.
        batch: `alone`, or the shape of the batch that it was decoded in, rows × slots: `64x192`.
        again: why it was computed a second time, alone, and that result taken; empty where it was not.
    """

    replies: tuple[Decoded, ...]
    scores: tuple[float, ...]
    batch: str = ALONE
    again: str = ""


class Ticket(Protocol):
    """A state's place in a pool."""

    def answer(self) -> Answer:
        """What was read, once the pool is drained.

        Raises:
            FloatingPointError: the model's logits for this state are not numbers.
            OutOfMemory: the device was full.
            ValueError: the pool has not come to it yet.
        """


class Pool(Protocol):
    """Reads replies from many states at once; each is what `decode` and `score` would give for it alone."""

    def admit(self, handle: Handle, asks: Sequence[Ask], texts: Sequence[str] = ()) -> Ticket:
        """Take a copy of the state as it is now, with what waits to be fed; the handle may be used up.

        While there is no room, states that were admitted before are worked on.
        """

    def drain(self) -> None:
        """Work until every ticket has its answer."""

    def prove(self) -> str:
        """Try the usual batch now and not at the first state; what is found is the engine's, for all its pools.

        Returns:
            Why states are decoded alone; empty where they are not.
        """

    def recheck(self) -> str:
        """Try once more every shape that was tried; what is wrong with one now, empty where nothing is."""


Chain = tuple[tuple[int, ...], ...]
"""Ids of a first pass and of the feeds behind it, as an arm or a session will ask for them."""


class Shelf(Protocol):
    """Prefilled states of one model, apart by class (DESIGN §4.6): what one class computed is never seen by another.

    A state is found by its bytes and by the ids that are fed to it, never by what it is called.
    """

    def fill(self, wanted: Iterable[tuple[str, Chain]]) -> None:
        """Prefill (class, chain) pairs, each distinct prefix of a class once and siblings in one batch.

        What several classes ask for is compared, and one state is computed alone, too.

        Raises:
            IsolationError: they are not the same (`shelf_differs`); the shelf is as it was.
            OutOfMemory: the device is full; the shelf is as it was.
        """

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds: keys, values, and predictions after the states that were asked for."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a loaded engine is, for the row."""

    engine: str
    """`transformers` or `null`."""
    model: str
    """Stem of the model's YAML."""
    device: str
    versions: str
    """Exact versions of the libraries that computed the numbers."""
    cache: str
    """Cache family, such as `full`, `sliding`, `hybrid`, `recurrent`."""
    window_tokens: int | None
    """Tokens that the narrowest sliding or chunked layer attends to; None where every layer attends to all."""
    template_sha256: str
    bos_id: int | None
    """The tokenizer's beginning of sequence, where it has one."""
    layer1_tolerance: float
    """max(1e-5, 10 × the distance between a one-pass and a two-chunk pass on this model) (DESIGN §4.5)."""
    kernels: str = "stock"
    """`invariant`: a row's bits are the same alone and in every batch, in one pass and in several, proven when the
    model was loaded. `stock`: the framework's own kernels, under which they are only close."""


class Engine(Protocol):
    """One loaded model. A handle is only ever valid on the engine that opened it."""

    @property
    def facts(self) -> Facts:
        """What was loaded, and how far apart two honest passes lie on it."""

    def render(self, messages: Sequence[Message]) -> Render:
        """Messages → text and ids, generation prompt included.

        Raises:
            TemplateError: the template refuses the messages.
        """

    def text(self, ids: Sequence[int]) -> str:
        """Ids → text, special tokens kept, no clean-up."""

    def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The ways the tokenizer may write `text`: alone, after a space, after a line break."""

    def through(self, path: Path) -> Engine:
        """The same model on another path. Handles belong to all paths of an engine alike.

        On `generate`, what is fed to a handle that has a context waits, and the ledger counts it, until the reply's
        `generate` call feeds it; whoever looks at the state before (crop, mask, digest, distance, the next
        feed) has it encoded first, by a `generate` call of one token. A fork waits like its parent. Scores are taken on
        a fork, by `forward`.

        Raises:
            Unsupported: the framework cannot continue this model's cache on that path, or does it wrongly.
        """

    def shelf(self) -> Shelf | None:
        """An empty shelf; None where this model's states are not computed in batches, so that nothing is shared."""

    def sharing(self, shelf: Shelf, name: str) -> Engine:
        """The same model; passes that the class `name` has on the shelf are copied from there, others computed.

        What is fed to a handle waits, as on the path `generate`, until somebody looks at the state or a pool takes it.
        Only the path `explicit` shares; others stay as they are.
        """

    def pool(self, *, is_batched: bool, is_timed: bool = True) -> Pool:
        """A new pool; one that is not batched, or whose model cannot be, decodes each state as it is admitted.

        Args:
            is_timed: let a reply take a step for each token, so that its time means something, even where it could be
                read in one pass along a text that is scored.
        """

    def agrees(self, handle: Handle, ask: Ask, reply: Decoded) -> bool:
        """Whether decoding this state alone gives that reply, token for token; the handle is consumed."""

    @property
    def token_bytes(self) -> int:
        """Bytes of keys and values that one more token takes in a cache; 0 where there are none."""

    def check_span(self, shortest: int, longest: int) -> None:
        """Make sure that contexts of `shortest` to `longest` tokens see one and the same model.

        Raises:
            IsolationError: its rotary embedding switches in between (`rope_switch`).
        """

    def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:
        """A new cache filled by one pass over `ids` (not empty).

        Args:
            records_past: let the library keep what its own crop asks for, whatever the cache family.
        """

    def feed(self, handle: Handle, ids: Sequence[int]) -> None:
        """Append `ids` (not empty) to the handle's cache, in place.

        Raises:
            IsolationError: ledger and cache length disagree afterwards (`ledger_mismatch`), a rotary switch would
                be crossed (`rope_switch`), or the handle is another engine's (`foreign_handle`).
            OutOfMemory: the device is full.
        """

    def fork(self, handle: Handle) -> Handle:
        """A copy that shares no storage with `handle`."""

    def crop(self, handle: Handle, length: int) -> Handle:
        """A new handle holding the first `length` tokens, on storage of its own; `handle` is not touched.

        It has no next-token distribution until it is fed. Where the handle records its past, the library's crop is
        taken at its word: nothing is refused that the library does not refuse.

        Raises:
            ValueError: `length` is not between 1 and the number of tokens.
            Unsupported: this cache family cannot be cropped.
            IsolationError: the crop left another number of tokens.
        """

    def mask(self, handle: Handle, start: int, stop: int) -> Handle:
        """A new handle, on storage of its own, in which positions `start` to `stop` get no attention any more.

        Positions are kept, so it is not the state of a session that never held them; and what later tokens took from
        the span before it was masked stays in their own keys and values. The mask goes with every fork and crop. The
        handle has no next-token distribution until it is fed.

        Raises:
            ValueError: not 0 ≤ start < stop ≤ the number of tokens.
            Unsupported: the cache folds its past into a state, the path takes no mask, or zero attention is not proven.
        """

    def wait(self) -> None:
        """Return once the device has done all that it was asked: a clock read before that times the asking."""

    def digest(self, handle: Handle) -> str:
        """Hash of the cache's bytes, the ledger and the mask."""

    def fingerprint(self, handle: Handle) -> str:
        """Hash of all that a reply from this state depends on: as `digest`, but nothing is encoded for it.

        What waits to be fed is named as such; where nothing waits, the prediction after the last token counts, too.
        """

    def shares_storage(self, handle: Handle, other: Handle) -> bool:
        """Whether any state tensor of the two lies in the same memory, be it as a view."""

    def distance(self, handle: Handle, reference: Handle) -> float | None:
        """Largest over tensors of max|a−b| / max|b|, every state tensor included; None if lengths or masks differ."""

    def decode(self, handle: Handle, max_new_tokens: int, stream: Stream | None = None) -> Decoded:
        """The reply after the last fed token, greedy or drawn with `stream`'s noise. The handle is consumed."""

    def score(self, handle: Handle, text: str) -> float:
        """Log-probability (nats) of `text` as the continuation; the handle is not touched."""
