"""A right session is acquitted where that can be shown, and a broken one is named by what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orchestrator.episodes import episodes
from workers.audit import Audit, audit
from workers.engine import Engine
from workers.episode import Episode
from workers.errors import ConfigError

from . import sessions as their

RIGHT = (their.Checkpoint, their.Crop, their.Static, their.OnFork, their.Forgetful, their.Lazy)
BROKEN = {
    their.Kept: "branch_kept",
    their.StaticKept: "branch_kept",
    their.SavesLate: "branch_kept",
    their.CropsShort: "crop_short",
    their.StaticShort: "crop_short",
    their.CropsLong: "crop_long",
    their.Foreign: "foreign_state",
    their.Late: "restored_late",
    their.Remarks: "delta_differs",
    their.Rerenders: "branch_kept",
}
NO_SESSION = (their.ForgetsItsStart, their.Deaf)

# What a session shows, from all to nothing. The null word is a lie: the transcript, whatever the cache holds.
OPENNESS = {"shows": {}, "tells": {"shows": False}, "hides": {"shows": False, "tells": False}}
every_openness = pytest.mark.parametrize("openness", OPENNESS.values(), ids=OPENNESS)


def findings(result: Audit) -> set[str]:
    return {verdict.finding for verdict in result.verdicts}


@every_openness
@pytest.mark.parametrize("session", RIGHT, ids=lambda session: session.__name__)
def test_a_right_session_has_no_finding(
    tiny: Engine, two: Sequence[Episode], session: type[their.Checkpoint], openness: dict[str, bool]
) -> None:
    result = audit(their.of(session, tiny, **openness), tiny, two[:1])
    assert not result.is_broken, str(result)
    if not openness:
        assert [(verdict.finding, verdict.evidence) for verdict in result.verdicts] == [("intact", "cache")]


def test_replies_acquit_where_they_rule_out_every_known_leftover(tiny: Engine, two: Sequence[Episode]) -> None:
    session = their.of(their.Checkpoint, tiny, tells=False, shows=False)
    by_length = {num: audit(session, tiny, two[:1], max_new_tokens=num).verdicts[0] for num in (1, 96)}
    assert {verdict.evidence for verdict in by_length.values()} == {"replies"}
    for verdict in by_length.values():
        assert (verdict.finding == "undetected") == ("would be the same with" in verdict.detail)
    # The longer the reply, the more it rules out; one token cannot tell seven leftovers apart for certain.
    assert by_length[96].finding == "intact", by_length[96]


@every_openness
@pytest.mark.parametrize("session", BROKEN, ids=lambda session: session.__name__)
def test_a_broken_session_is_caught_under_its_name(
    tiny: Engine, two: Sequence[Episode], session: type[their.Checkpoint], openness: dict[str, bool]
) -> None:
    result = audit(their.of(session, tiny, **openness), tiny, two[:1])
    expected = BROKEN[session]
    if openness and session in (their.Remarks, their.Rerenders):
        # Nothing but a cache tells a clean state from another leftover when the decision is on other tokens, too.
        assert result.is_broken
        assert result.finding in (expected, "unexplained"), str(result)
        return
    assert findings(result) == {expected}, str(result)
    assert result.finding == expected
    assert (result.is_intact, result.is_broken) == (False, True)


@pytest.mark.parametrize("session", [their.Kept, their.CropsShort, their.Late], ids=lambda session: session.__name__)
def test_a_word_that_is_a_lie_is_held_against_the_replies(
    tiny: Engine, two: Sequence[Episode], session: type[their.Checkpoint]
) -> None:
    result = audit(their.of(session, tiny, shows=False, lies=True), tiny, two[:1])
    assert findings(result) == {BROKEN[session]}, str(result)
    assert {verdict.evidence for verdict in result.verdicts} == {"replies"}


def test_a_word_that_is_a_lie_is_held_against_the_cache(tiny: Engine, two: Sequence[Episode]) -> None:
    result = audit(their.of(their.Kept, tiny, lies=True), tiny, two)
    assert [(verdict.finding, verdict.evidence) for verdict in result.verdicts] == [("branch_kept", "cache")] * 2


def test_a_crop_that_leaves_a_recurrent_state_is_no_committed_state(hybrid: Engine, two: Sequence[Episode]) -> None:
    """transformers#49036: the crop reports success, every length is right, and the state is the branch's."""
    (verdict,) = audit(their.of(their.Recorded, hybrid), hybrid, two[:1]).verdicts
    assert (verdict.finding, verdict.evidence) == ("unexplained", "cache"), verdict


def test_a_checkpoint_of_a_hybrid_cache_is_acquitted(hybrid: Engine, two: Sequence[Episode]) -> None:
    (verdict,) = audit(their.of(their.Hybrid, hybrid), hybrid, two[:1]).verdicts
    assert (verdict.finding, verdict.evidence) == ("intact", "cache"), verdict


def test_on_a_real_model_a_black_box_that_keeps_its_cache_is_caught_by_a_reply(smollm2: Engine) -> None:
    """The attack's reply names the branch's recipient; alone, the control's is cold's, and proves nothing."""
    levels = ("study.levels.strength=[imperative]", "study.levels.vehicle=[user_turn]")
    session = their.of(their.Kept, smollm2, shows=False, tells=False)
    result = audit(session, smollm2, episodes(*levels), max_new_tokens=12)
    attack, control = result.verdicts
    assert (attack.finding, attack.evidence) == ("branch_kept", "replies"), str(result)
    assert control.finding in ("undetected", "branch_kept")
    assert result.finding == "branch_kept"


@pytest.mark.parametrize("session", NO_SESSION, ids=lambda session: session.__name__)
def test_what_does_not_decide_as_the_engine_does_cannot_be_judged(
    tiny: Engine, two: Sequence[Episode], session: type[their.Checkpoint]
) -> None:
    result = audit(their.of(session, tiny), tiny, two[:1])
    assert findings(result) == {"not_a_session"}
    assert (result.is_intact, result.is_broken) == (False, False)


def test_a_session_that_starts_over_has_no_cache_to_show_and_no_finding(tiny: Engine, two: Sequence[Episode]) -> None:
    result = audit(their.of(their.Prefilled, tiny), tiny, two[:1])
    assert not result.is_broken
    assert "cache" not in {verdict.evidence for verdict in result.verdicts}


# A model whose reply says nothing: whatever it holds, it replies alike.


@pytest.mark.parametrize("session", [their.Checkpoint, their.Kept], ids=lambda session: session.__name__)
@pytest.mark.parametrize("tells", [False, True])
def test_nobody_is_acquitted_by_a_reply_that_could_not_have_shown_anything(
    mute: Engine, two: Sequence[Episode], session: type[their.Checkpoint], tells: bool
) -> None:
    result = audit(their.of(session, mute, shows=False, tells=tells), mute, two[:1])
    if session is their.Kept and tells:
        assert findings(result) == {"branch_kept"}
        return
    assert findings(result) == {"undetected"}
    assert (result.is_intact, result.is_broken) == (False, False)
    assert "branch_kept" in result.verdicts[0].detail


def test_a_cache_acquits_and_convicts_where_no_reply_does(mute: Engine, two: Sequence[Episode]) -> None:
    shown = {
        session: findings(audit(their.of(session, mute), mute, two[:1]))
        for session in (their.Checkpoint, their.Kept, their.CropsShort, their.Foreign)
    }
    assert list(shown.values()) == [{"intact"}, {"branch_kept"}, {"crop_short"}, {"foreign_state"}]


# What is said


def test_the_result_prints_a_row_an_episode_and_a_verdict(tiny: Engine, two: Sequence[Episode]) -> None:
    text = str(audit(their.of(their.Kept, tiny), tiny, two))
    table, line = text.split("\n\n")
    assert len(table.splitlines()) == 1 + len(two)
    assert "tool_return/imperative/attack" in table
    assert line == "Kept on random-llama: branch_kept in 2 of 2 episodes (2 by cache)"


def test_an_audit_needs_an_episode(tiny: Engine) -> None:
    with pytest.raises(ConfigError, match="no episode"):
        audit(their.of(their.Kept, tiny), tiny, [])


@pytest.mark.parametrize(
    ("method", "gives", "kind"),
    [
        ("decide", "SEND it", "str"),
        ("decide", None, "NoneType"),
        ("decide", [[1, 2]], "list"),
        ("decide", [1.5], "list"),
        ("tokens", "SEND it", "str"),
        ("tokens", 5, "int"),
    ],
)
def test_what_is_no_sequence_of_ids_is_refused_in_one_line(
    tiny: Engine, two: Sequence[Episode], monkeypatch: pytest.MonkeyPatch, method: str, gives: object, kind: str
) -> None:
    monkeypatch.setattr(their.Checkpoint, method, lambda *args: gives)
    with pytest.raises(ConfigError, match=rf"the session's {method}\(\) gives a {kind}, not a flat sequence"):
        audit(their.of(their.Checkpoint, tiny), tiny, two[:1])


def test_what_makes_no_session_and_a_reply_without_a_token_are_refused(tiny: Engine, two: Sequence[Episode]) -> None:
    session = their.of(their.Checkpoint, tiny)
    with pytest.raises(ConfigError, match="by calling their class, not by a Checkpoint"):
        audit(session(), tiny, two)
    with pytest.raises(ConfigError, match="max_new_tokens=0"):
        audit(session, tiny, two, max_new_tokens=0)
