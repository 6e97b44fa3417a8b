"""What a shelf lends is what the handle would have computed: by its bytes, inside its class, on storage of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import pytest
import torch

from workers import engine as engines
from workers.engine import Chain, Engine
from workers.engine import batch as batches
from workers.engine import cache as kv
from workers.engine.batch import Batch
from workers.engine.shelf.prefills import Prefills
from workers.engine.shelf.trie import Trie
from workers.errors import IsolationError, OutOfMemory
from workers.spec import ModelSpec

Tiny = Callable[[str], Engine]
Wanted = list[tuple[str, Chain]]

HEADS = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def ids_of(length: int, seed: int) -> tuple[int, ...]:
    return tuple((seed * 7919 + 31 * at) % 40_000 + 10 for at in range(length))


COMMITTED, OTHER = ids_of(40, 1), ids_of(40, 1)[:30] + ids_of(25, 2)
BRANCHES = (ids_of(20, 3), ids_of(3, 4), ids_of(20, 3)[:5] + ids_of(9, 5))
DELTA = ids_of(12, 6)
WANTED: Wanted = [
    *(("session", (prefix, branch)) for prefix in (COMMITTED, OTHER) for branch in BRANCHES),
    *(("fresh", (prefix,)) for prefix in (COMMITTED, OTHER)),
    *(("cold", (prefix + DELTA,)) for prefix in (COMMITTED, OTHER)),
]


def shelf_of(engine: Engine, wanted: Wanted = WANTED) -> Any:
    shelf = engine.shelf()
    assert shelf is not None
    shelf.fill(wanted)
    return shelf


def own(positions: list[int]) -> int:
    """Ids of a row: they stand at its end, each one position further; what pads them is put at position 0."""
    steps = zip(positions[::-1], positions[-2::-1], strict=False)
    return 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] + 1, steps))


@contextmanager
def fed(engine: Any) -> Iterator[list[int]]:
    """Ids of each row of each pass of the model, padding not counted."""
    sizes: list[int] = []

    def note(module: Any, args: Any, inputs: dict[str, Any]) -> None:
        mask = inputs.get("attention_mask")
        if mask is None or mask.dim() == 2:
            sizes.append(inputs["input_ids"].shape[1])
        else:
            sizes.extend(map(own, inputs["position_ids"].tolist()))

    hook = engine._model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield sizes
    finally:
        hook.remove()


def walked(engine: Engine, chain: Chain) -> Any:
    handle: Any = engine.prefill(chain[0])
    for ids in chain[1:]:
        engine.feed(handle, ids)
    return handle


@pytest.fixture(scope="module")
def shelf(llama: Engine) -> Any:
    """A full shelf of the plainest model. Nobody may add to it."""
    return shelf_of(llama)


@pytest.fixture
def session(llama: Engine, shelf: Any) -> Engine:
    """The plainest model, sharing what the session has."""
    return llama.sharing(shelf, "session")


def assert_lent_states_are_those_alone(engine: Engine, shelf: Any, wanted: Wanted) -> None:
    for name, chain in wanted:
        with fed(engine) as sizes:
            lent = walked(engine.sharing(shelf, name), chain)
            digest = engine.digest(lent)
        assert (lent.shared_by, sizes) == (name, [])
        alone = walked(engine, chain)
        assert (lent.ledger, lent.passes, lent.num_queued) == (alone.ledger, alone.passes, 0)
        gap = engine.distance(lent, alone)
        assert gap is not None
        assert gap <= engine.facts.layer1_tolerance
        assert kv.relative(lent.logits, alone.logits) <= engine.facts.layer1_tolerance
        if gap == 0:
            assert digest == engine.digest(alone)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "phi3", "granite"])
def test_lent_states_are_those_that_are_computed_alone(
    tiny_spec: Callable[..., ModelSpec], architecture: str, attention: str
) -> None:
    engine = engines.load(tiny_spec(architecture, config=HEADS, attention=attention), num_threads=1)
    assert_lent_states_are_those_alone(engine, shelf_of(engine), WANTED)


def test_lent_states_of_the_real_model_are_those_that_are_computed_alone(smollm2: Engine) -> None:
    wanted: Wanted = [("session", (COMMITTED, BRANCHES[0])), ("session", (OTHER,)), ("fresh", (COMMITTED,))]
    assert_lent_states_are_those_alone(smollm2, shelf_of(smollm2, wanted), wanted)


def test_each_prefix_of_a_class_is_computed_once_and_of_no_other_class(llama: Engine) -> None:
    for wanted in (WANTED, [pair for pair in WANTED if pair[0] == "fresh"]):
        shelf, trie = llama.shelf(), Trie[Any]()
        assert isinstance(shelf, Prefills)
        shelf.alone = lambda ids: llama.prefill(ids)  # type: ignore[assignment, return-value]
        for name, chain in wanted:
            trie.add(name, chain)
        with fed(llama) as sizes:
            shelf.fill(wanted)
        alone = sizes[-1]
        assert sum(sizes) - alone == trie.num_tokens
        assert alone in {sum(map(len, chain)) for _, chain in wanted}


def storages(shelf: Any) -> dict[str, set[int]]:
    return {
        name: {
            tensor.untyped_storage().data_ptr()
            for level in Trie(roots={name: root}).levels()
            for node in level
            for tensor in (node.kept.keys, node.kept.values, node.kept.logits)
            if tensor is not None
        }
        for name, root in shelf._trie.roots.items()
    }


def test_classes_and_handles_share_no_memory(llama: Engine, shelf: Any) -> None:
    owners = list(storages(shelf).values())
    handles = [walked(llama.sharing(shelf, name), chain) for name, chain in WANTED * 2]
    for handle in handles:
        llama.digest(handle)
        owners.append({place for _, place in kv.storages(handle.cache)} | {handle.logits.untyped_storage().data_ptr()})
    assert sum(map(len, owners)) == len(set().union(*owners))


def test_what_happens_to_a_lent_state_leaves_the_shelf_alone(session: Engine) -> None:
    before = session.digest(session.prefill(COMMITTED))
    spoilt: Any = session.prefill(COMMITTED)
    with torch.inference_mode():
        for _, tensor in kv.tensors(spoilt.cache):
            tensor.zero_()
        spoilt.logits.zero_()
    again: Any = session.prefill(COMMITTED)
    assert session.digest(again) == before
    assert again.logits.any()
    assert again.root is not spoilt.root


def test_what_is_fed_waits_until_somebody_looks(llama: Engine, session: Engine) -> None:
    with fed(llama) as sizes:
        parent: Any = session.prefill(COMMITTED)
        session.feed(parent, ids_of(7, 70))
        child: Any = session.fork(parent)
        assert parent.ledger == child.ledger == COMMITTED + ids_of(7, 70)
        assert parent.passes == child.passes == (40, 7)
        assert sizes == []
        session.digest(child)
        assert sizes == [7]
    assert (parent.num_queued, child.num_queued) == (7, 0)


def test_a_reply_is_decoded_from_what_waits(llama: Engine, session: Engine) -> None:
    shared, alone = session.prefill(COMMITTED), llama.prefill(COMMITTED)
    session.feed(shared, DELTA)
    llama.feed(alone, DELTA)
    assert session.score(shared, " the parcel") == pytest.approx(llama.score(alone, " the parcel"), abs=1e-3)
    assert session.decode(shared, 6).ids == llama.decode(alone, 6).ids


def test_a_crop_that_leaves_the_right_bytes_goes_on_as_the_state_that_it_is(llama: Engine, session: Engine) -> None:
    explored = walked(session, (COMMITTED, BRANCHES[0]))
    with fed(llama) as sizes:
        for length in (40, 43):  # a state that was asked for, and a place amid a node
            cropped: Any = session.crop(explored, length)
            session.feed(cropped, BRANCHES[0][length - 40 :])
            assert session.digest(cropped) == session.digest(explored)
            assert cropped.shared_by == "session"
    assert sizes == []


def nudge(cache: Any) -> None:
    cache.layers[-1].values[0, 0, 3, 0] += 1e-3


def swap(cache: Any) -> None:
    layer = cache.layers[0]
    layer.keys = layer.keys[:, :, [1, 0, *range(2, layer.keys.shape[2])]]


@pytest.mark.parametrize("damage", [nudge, swap])
def test_a_damaged_state_is_not_taken_for_what_its_ledger_says(
    llama: Engine, session: Engine, damage: Callable[[Any], None]
) -> None:
    handle: Any = session.prefill(COMMITTED)
    with torch.inference_mode():
        damage(handle.cache)
    alone: Any = llama.fork(handle)
    llama.feed(alone, BRANCHES[0])
    with fed(llama) as sizes:
        session.feed(handle, BRANCHES[0])
        assert session.digest(handle) == llama.digest(alone)
    assert sizes == [20]


def test_bytes_are_compared_and_not_numbers(llama: Engine, session: Engine, shelf: Any) -> None:
    handle: Any = session.prefill(COMMITTED)
    kept = shelf._trie.find("session", COMMITTED).path()[0].kept
    with torch.inference_mode():
        first = kept.keys[0, 0, 0, 0].clone()
        kept.keys[0, 0, 0, 0], handle.cache.layers[0].keys[0, 0, 0, 0] = 0.0, -0.0
        with fed(llama) as sizes:
            session.feed(handle, BRANCHES[0])
            session.digest(handle)
        kept.keys[0, 0, 0, 0] = first
    assert sizes == [20]


def test_a_state_of_another_class_is_never_lent_to(llama: Engine) -> None:
    shelf = shelf_of(llama, [("fresh", (COMMITTED,)), ("session", (COMMITTED, BRANCHES[0]))])
    handle: Any = llama.sharing(shelf, "fresh").prefill(COMMITTED)
    with fed(llama) as sizes:
        llama.sharing(shelf, "session").feed(handle, BRANCHES[0])
        llama.digest(handle)
    assert (sizes, handle.shared_by) == ([20], "fresh")


def test_a_state_goes_on_in_its_own_class_whoever_feeds_it(llama: Engine) -> None:
    shelf: Any = shelf_of(llama, [(name, (COMMITTED, BRANCHES[0])) for name in ("fresh", "session")])
    handle: Any = llama.sharing(shelf, "fresh").prefill(COMMITTED)
    for kept in (node.kept for node in shelf._trie.find("session", COMMITTED + BRANCHES[0]).path()):
        with torch.inference_mode():
            kept.values.fill_(1)
    with fed(llama) as sizes:
        llama.sharing(shelf, "session").feed(handle, BRANCHES[0])
        llama.digest(handle)
    assert (sizes, handle.shared_by) == ([], "fresh")
    assert not (handle.cache.layers[0].values == 1).all()


def test_what_was_computed_for_a_state_alone_is_continued_alone(llama: Engine) -> None:
    shelf = shelf_of(llama, [("session", (COMMITTED, BRANCHES[0]))])
    handle: Any = llama.prefill(COMMITTED)
    with fed(llama) as sizes:
        llama.sharing(shelf, "session").feed(handle, BRANCHES[0])
        llama.digest(handle)
    assert (sizes, handle.shared_by) == ([20], None)


def test_a_mask_is_never_lent_away(llama: Engine, session: Engine) -> None:
    masked: Any = session.mask(session.prefill(COMMITTED), 3, 9)
    assert masked.shared_by == "session"
    with fed(llama) as sizes:
        session.feed(masked, BRANCHES[0])
        session.digest(masked)
    assert sizes == [20]
    assert masked.hidden == ((3, 9),)


def test_a_cache_that_records_its_past_is_computed(llama: Engine, session: Engine) -> None:
    with fed(llama) as sizes:
        handle = session.prefill(COMMITTED, records_past=True)
        session.feed(handle, BRANCHES[0])
    assert sizes == [40, 20]
    assert handle.shared_by is None


def test_copies_and_crops_tell_whose_they_are(session: Engine) -> None:
    lent = session.prefill(COMMITTED)
    assert (session.fork(lent).shared_by, session.crop(lent, 30).shared_by) == ("session", "session")
    assert session.prefill(ids_of(9, 99)).shared_by is None


@pytest.mark.parametrize("path", ["default", "generate"])
def test_other_paths_share_nothing(llama: Engine, shelf: Any, path: Any) -> None:
    for engine in (llama.through(path).sharing(shelf, "session"), llama.sharing(shelf, "session").through(path)):
        with fed(llama) as sizes:
            assert engine.prefill(COMMITTED).shared_by is None
        assert sizes == [40]


@pytest.mark.parametrize("architecture", ["mistral", "llama4_text", "falcon_h1", "jamba", "mamba", "lfm2", "scripted"])
def test_what_cannot_be_batched_has_no_shelf(tiny: Tiny, architecture: str) -> None:
    assert tiny(architecture).shelf() is None


def test_a_shelf_that_is_filled_again_computes_only_what_it_lacks(llama: Engine) -> None:
    shelf = shelf_of(llama)
    with fed(llama) as sizes:
        shelf.fill(WANTED)
    assert sizes == []
    more: Wanted = [("session", (COMMITTED[:10], COMMITTED[10:] + BRANCHES[1] + ids_of(6, 8)))]
    with fed(llama) as sizes:
        shelf.fill(more)
    # The first ten ids, whose end nobody asked for before, the last six, and one state alone.
    assert sorted(sizes[:-1]) == [6, 10]
    assert_lent_states_are_those_alone(llama, shelf, WANTED + more)


def test_the_bytes_are_those_of_the_tokens_and_of_the_asked_predictions(llama: Engine) -> None:
    shelf, trie = shelf_of(llama), Trie[Any]()
    for name, chain in WANTED:
        trie.add(name, chain)
    cuts = sum(node.is_cut for level in trie.levels() for node in level)
    handle: Any = llama.prefill(COMMITTED)
    token = sum(tensor.nbytes for _, tensor in kv.tensors(handle.cache)) // len(COMMITTED)
    assert shelf.num_bytes == trie.num_tokens * token + cuts * handle.logits.nbytes
    assert llama.shelf().num_bytes == 0  # type: ignore[union-attr]


HONEST_POSITIONS, HONEST_MASK = batches._positions, Batch._mask
HONEST_PUT, HONEST_FEED, HONEST_CUT = Batch.put, Batch.feed, Batch.cut


def shifted(length: int, num_new: int, longest: int) -> list[int]:
    return [at if at < 0 else max(at - 1, 0) for at in HONEST_POSITIONS(length, num_new, longest)]


def of_the_neighbour(batch: Batch, *args: Any) -> torch.Tensor:
    return HONEST_MASK(batch, *args).roll(1, 0)


def of_another_parent(batch: Batch, layers: Any) -> int:
    return HONEST_PUT(batch, [(keys.flip(2), values) for keys, values in layers])


def of_the_next_row(batch: Batch, *args: Any, **kwargs: Any) -> torch.Tensor:
    return HONEST_FEED(batch, *args, **kwargs).roll(1, 0)


@pytest.mark.parametrize(
    ("place", "name", "fault"),
    [
        (batches, "_positions", shifted),
        (Batch, "_mask", of_the_neighbour),
        (Batch, "put", of_another_parent),
        (Batch, "feed", of_the_next_row),
    ],
)
def test_a_fault_in_the_batched_passes_is_caught(
    llama: Engine, monkeypatch: pytest.MonkeyPatch, place: object, name: str, fault: Any
) -> None:
    monkeypatch.setattr(place, name, fault)
    shelf = llama.shelf()
    assert shelf is not None
    with pytest.raises(IsolationError, match="shelf_differs"):
        shelf.fill(WANTED)
    assert shelf.num_bytes == 0


def test_a_fault_in_one_row_is_caught_by_the_other_classes(llama: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state that is also computed alone is none of the spoilt row's."""

    def cut(batch: Batch, row: int, start: int, stop: int) -> Any:
        layers = HONEST_CUT(batch, row, start, stop)
        return layers if row else [(keys, values * 1.01) for keys, values in layers]

    monkeypatch.setattr(Batch, "cut", cut)
    wanted = [pair for pair in WANTED if pair[0] == "session"]
    with pytest.raises(IsolationError, match="computed for another class"):
        shelf_of(llama, [*wanted, *((name, (chain[0],)) for _, chain in wanted for name in ("fresh", "reference"))])


def test_a_state_that_is_no_number_is_lent_to_nobody_and_spoils_none(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial that asks for it fails alone, as it does without a shelf."""
    embed, bad = llama._model.get_input_embeddings(), ids_of(60, 80)
    honest = embed.forward
    monkeypatch.setattr(
        embed, "forward", lambda ids: honest(ids).masked_fill((ids == bad[57])[..., None], float("nan"))
    )
    shelf = shelf_of(llama, [*WANTED, ("fresh", (bad,)), ("fresh", (bad[:3] + COMMITTED,))])
    with pytest.raises(FloatingPointError):
        llama.sharing(shelf, "fresh").prefill(bad)
    assert_lent_states_are_those_alone(llama, shelf, [*WANTED, ("fresh", (bad[:3] + COMMITTED,))])


def test_a_shelf_on_which_a_fill_failed_lends_what_is_whole(llama: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = shelf_of(llama)
    # They part nodes that others go on from, and cannot fill what is above.
    parting: Wanted = [(name, (COMMITTED[:10],)) for name in ("session", "fresh")]
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "cut", lambda *args: [(keys * 1.01, values) for keys, values in HONEST_CUT(*args)])
        with pytest.raises(IsolationError, match="shelf_differs"):
            shelf.fill(parting)
    for name, chain in WANTED:
        lent: Any = walked(llama.sharing(shelf, name), chain)
        llama.digest(lent)
        assert (lent.shared_by is None) == (name != "cold")
    shelf.fill([])
    assert_lent_states_are_those_alone(llama, shelf, WANTED)


def test_nothing_beyond_a_rotary_switch_is_put_on_a_shelf(tiny_spec: Callable[..., ModelSpec]) -> None:
    limit = {"original_max_position_embeddings": 50}
    rope = limit | {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    config = HEADS | limit | {"rope_parameters": rope, "max_position_embeddings": 200, "pad_token_id": 0}
    engine: Any = engines.load(tiny_spec("phi3", config=config), num_threads=1)
    below: Wanted = [("session", (COMMITTED, BRANCHES[1]))]
    shelf = shelf_of(engine, [*below, ("session", (COMMITTED, BRANCHES[0])), ("session", (OTHER,))])
    assert_lent_states_are_those_alone(engine, shelf, below)
    with fed(engine) as sizes:
        assert engine.sharing(shelf, "session").prefill(OTHER).shared_by is None
    assert sizes == [55]
    crossing = engine.sharing(shelf, "session").prefill(COMMITTED)
    engine.sharing(shelf, "session").feed(crossing, BRANCHES[0])
    with pytest.raises(IsolationError, match="rope_switch"):
        engine.digest(crossing)


def test_a_full_device_is_an_error_of_ours(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = llama.shelf()

    def full(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(llama._model, "forward", full)
    with pytest.raises(OutOfMemory):
        shelf.fill(WANTED)
