"""A refusal says in one line what is refused and what to write into the model's YAML, and that works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import yaml

from workers.block import Block
from workers.engine import Render
from workers.engine.null import NullEngine
from workers.episode import Episode, Message
from workers.errors import IsolationError, TemplateError
from workers.runner import BlockRunner
from workers.spec import ModelSpec
from workers.split import split
from workers.studies import get
from workers.turns import arranged


class Strict(NullEngine):
    """A template with the constraints that are named."""

    def __init__(self, spec: ModelSpec, constraints: Sequence[str]) -> None:
        super().__init__(spec)
        self.constraints = constraints

    def render(self, messages: Sequence[Message]) -> Render:
        turns = arranged(messages, self._spec)
        roles = [turn.role for turn in turns]
        if "no system" in self.constraints and "system" in roles:
            raise TemplateError("System role not supported")
        talk = [role for role in roles if role != "system"]
        if "alternate" in self.constraints and any(a == b for a, b in pairwise(talk)):
            raise TemplateError("Conversation roles must alternate")
        if "no tool" in self.constraints:
            messages = [turn for turn in messages if turn.role != "tool"]
        if "nothing" in self.constraints:
            messages = messages[1:]
        return super().render(messages)


def line_of(spec: ModelSpec, episode: Episode, constraints: Sequence[str]) -> str:
    with pytest.raises((IsolationError, TemplateError)) as refusal:
        split(Strict(spec, constraints), episode)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("constraints", "mended"),
    [
        (["no tool"], {"roles": {"tool_return": "user"}}),
        (["no system"], {"system": "fold"}),
        (["no tool", "no system"], {"roles": {"tool_return": "user"}, "system": "fold"}),
        (["no tool", "alternate"], {"roles": {"tool_return": "user"}, "acknowledgement": "Understood."}),
        (
            ["no tool", "no system", "alternate"],
            {"roles": {"tool_return": "user"}, "system": "fold", "acknowledgement": "Understood."},
        ),
    ],
)
def test_the_line_names_the_fewest_options_that_mend(
    scripted: ModelSpec, attack: Episode, constraints: list[str], mended: dict[str, Any]
) -> None:
    line = line_of(scripted, attack, constraints)
    what, _, options = line.partition("; set in scripted.yaml: ")
    assert "template" in what or "not supported" in what or "must alternate" in what
    assert yaml.safe_load(f"{{{options}}}") == mended


def test_a_fault_that_nothing_mends_says_so(scripted: ModelSpec, attack: Episode) -> None:
    line = line_of(scripted, attack, ["nothing"])
    assert line.startswith("message_dropped: the template drops")
    assert "message 0 (role system); no role and no option mends" in line
    assert "in scripted.yaml" in line


def test_an_empty_branch_is_not_the_template_s_fault(engine: NullEngine, attack: Episode) -> None:
    episode = Episode(attack.study, attack.axes, attack.committed, (), attack.finalize, attack.carriers, attack.facts)
    with pytest.raises(IsolationError) as refusal:
        split(engine, episode)
    assert "yaml" not in str(refusal.value)


def test_the_row_carries_the_line_and_no_verdict(scripted: ModelSpec, make_blocks: Callable[..., list[Block]]) -> None:
    (work, *_) = make_blocks("where=vehicle == 'tool_return'")[0].works
    for constraints, check in ((["no tool"], "message_dropped"), (["no system"], "template_refused")):
        runner = BlockRunner(Strict(scripted, constraints), get("rollback"), "class")
        [rows] = runner.run([work]).rows
        assert {row["status"] for row in rows} == {"invalid"}
        assert {row["failed_checks"] for row in rows} == {check}
        assert {row["error"] for row in rows} == {line_of(scripted, work.episode, constraints)}
        assert not any("effect_status" in row for row in rows)
