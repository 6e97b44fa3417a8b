"""The session app: what it believes in and what its cache encodes are told apart, and misuse is refused."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import NamedTuple

import pytest

from workers import session
from workers.engine import Handle
from workers.engine.null import NullEngine
from workers.episode import Episode
from workers.errors import SessionError, Unsupported
from workers.session import Mode, SessionApp
from workers.split import split
from workers.surfaces import Held, Step


class Steps(NamedTuple):
    committed: Step
    branch: Step
    finalize: Step


@pytest.fixture
def steps(engine: NullEngine, attack: Episode) -> Steps:
    parts = split(engine, attack)
    return Steps(
        Step(attack.committed, parts.committed_ids),
        Step(attack.branch, parts.branch_ids),
        Step(attack.finalize, parts.delta_ids),
    )


@pytest.fixture
def app(engine: NullEngine, steps: Steps) -> SessionApp:
    """One session, `desk`, with an open branch."""
    app = SessionApp(engine)
    app.begin("desk", steps.committed)
    app.explore("desk", steps.branch)
    return app


def reply(app: SessionApp, engine: NullEngine, name: str, finalize: Step) -> str:
    return app.decide(name, finalize, lambda state: engine.decode(state, 40).text)


def test_the_documented_example_does_as_it_says(engine: NullEngine, steps: Steps) -> None:
    examples = doctest.DocTestFinder(recurse=False).find(SessionApp, globs=None)
    runner = doctest.DocTestRunner()
    for example in examples:
        example.globs |= vars(session) | steps._asdict() | {"engine": engine}
        runner.run(example)
    assert (runner.tries > 5, runner.failures) == (True, 0)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.KEEP])
def test_a_restoring_abort_leaves_nothing_of_the_branch(app: SessionApp, steps: Steps, mode: Mode) -> None:
    app.abort("desk", mode)
    assert app.transcript("desk") == steps.committed
    assert app.ledger("desk") == steps.committed.ids
    assert app.residue("desk") == ()


def test_the_buggy_abort_leaves_the_branch_in_the_cache_alone(
    engine: NullEngine, app: SessionApp, steps: Steps
) -> None:
    app.abort("desk", Mode.KEEP)
    assert app.transcript("desk") == steps.committed
    assert app.ledger("desk") == steps.committed.ids + steps.branch.ids
    assert app.residue("desk") == steps.branch.ids
    reply(app, engine, "desk", steps.finalize)
    assert app.transcript("desk").turns == steps.committed.turns + steps.finalize.turns
    assert app.residue("desk") == steps.branch.ids


def test_any_callable_restores(engine: NullEngine, app: SessionApp, steps: Steps) -> None:
    def one_too_few(held: Held) -> Handle:
        return engine.crop(held.explored, len(held.committed.ledger) + 1)

    app.abort("desk", one_too_few)
    assert app.residue("desk") == steps.branch.ids[:1]


def test_an_open_branch_is_in_the_cache_and_not_in_the_transcript(app: SessionApp, steps: Steps) -> None:
    assert app.transcript("desk") == steps.committed
    assert app.residue("desk") == steps.branch.ids


def test_a_branch_on_a_fork_is_never_in_the_sessions_cache(engine: NullEngine, steps: Steps) -> None:
    app = SessionApp(engine)
    app.begin("desk", steps.committed)
    app.explore("desk", steps.branch, on_fork=True)
    assert app.ledger("desk") == steps.committed.ids
    assert app.held("desk").explored.ledger == steps.committed.ids + steps.branch.ids
    app.abort("desk", Mode.SNAPSHOT)
    assert app.residue("desk") == ()


@pytest.mark.parametrize("on_fork", [False, True])
def test_a_committed_branch_is_in_both(engine: NullEngine, steps: Steps, on_fork: bool) -> None:
    app = SessionApp(engine)
    app.begin("desk", steps.committed)
    app.explore("desk", steps.branch, on_fork=on_fork)
    app.commit("desk")
    assert app.transcript("desk").ids == app.ledger("desk") == steps.committed.ids + steps.branch.ids
    assert app.residue("desk") == ()


def test_sessions_in_one_app_stay_apart(engine: NullEngine, app: SessionApp, steps: Steps) -> None:
    app.begin("other", steps.committed)
    app.fork("desk", "copy")
    app.abort("desk", Mode.KEEP)
    app.abort("copy", Mode.SNAPSHOT)
    reply(app, engine, "desk", steps.finalize)
    assert app.ledger("other") == app.ledger("copy") == steps.committed.ids
    app.fork("copy", "copy of the copy")
    reply(app, engine, "copy of the copy", steps.finalize)
    app.close("desk")
    assert app.ledger("copy") == steps.committed.ids


def test_two_explorations_of_copies_do_not_meet(engine: NullEngine, steps: Steps) -> None:
    app = SessionApp(engine)
    app.begin("desk", steps.committed)
    app.fork("desk", "copy")
    app.explore("desk", steps.branch)
    assert app.ledger("copy") == steps.committed.ids


MISUSES: dict[str, tuple[str, Callable[[SessionApp, Steps], object]]] = {
    "unknown name": ("unknown session 'dsek', did you mean 'desk'?", lambda app, _: app.ledger("dsek")),
    "unknown name to fork": ("unknown session 'a'", lambda app, _: app.fork("a", "b")),
    "begin twice": ("is a session 'desk' already", lambda app, steps: app.begin("desk", steps.committed)),
    "fork onto itself": ("is a session 'desk' already", lambda app, _: app.fork("desk", "desk")),
    "explore twice": ("has a branch already", lambda app, steps: app.explore("desk", steps.branch)),
    "decide with an open branch": (
        "has an open branch: commit or abort it",
        lambda app, steps: app.decide("desk", steps.finalize, id),
    ),
    "abort by the name of a mode": ("by 'keep': give a Mode", lambda app, _: app.abort("desk", "keep")),  # type: ignore[arg-type]
    "abort that gives nothing back": ("gives no cache back", lambda app, _: app.abort("desk", lambda held: None)),  # type: ignore[arg-type, return-value]
}


@pytest.mark.parametrize(("message", "misuse"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused_and_changes_nothing(
    app: SessionApp, steps: Steps, message: str, misuse: Callable[[SessionApp, Steps], object]
) -> None:
    with pytest.raises(SessionError, match=message):
        misuse(app, steps)
    assert app.ledger("desk") == steps.committed.ids + steps.branch.ids
    app.abort("desk", Mode.CROP)


def test_there_is_one_abort_to_a_branch(app: SessionApp) -> None:
    app.abort("desk", Mode.SNAPSHOT)
    for again in (lambda: app.abort("desk", Mode.KEEP), lambda: app.commit("desk"), lambda: app.held("desk")):
        with pytest.raises(SessionError, match="has no open branch"):
            again()


def test_what_has_decided_takes_no_more_turns(engine: NullEngine, app: SessionApp, steps: Steps) -> None:
    app.abort("desk", Mode.SNAPSHOT)
    reply(app, engine, "desk", steps.finalize)
    for more in (
        lambda: app.explore("desk", steps.branch),
        lambda: app.abort("desk", Mode.KEEP),
        lambda: app.decide("desk", steps.finalize, id),
    ):
        with pytest.raises(SessionError, match="has decided"):
            more()


def test_a_restore_that_is_refused_leaves_the_branch_open(app: SessionApp, steps: Steps) -> None:
    def refuse(held: Held) -> Handle:
        raise Unsupported("recurrent state cannot be rolled back")

    with pytest.raises(Unsupported):
        app.abort("desk", refuse)
    assert app.residue("desk") == steps.branch.ids
    app.abort("desk", Mode.SNAPSHOT)
    assert app.residue("desk") == ()
