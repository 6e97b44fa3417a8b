"""docs/audit.md runs as it stands."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "audit.md").read_text(encoding="utf-8")


def test_the_example_acquits_the_right_session_and_names_what_the_other_keeps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    llama = pytest.importorskip("transformers").LlamaForCausalLM
    if "cache" not in inspect.signature(llama.forward).parameters:
        pytest.skip("the page says what to write before transformers 5.24")
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, "docs/audit.md", "exec"), names)
    right, broken = names["right"], names["broken"]
    assert right.is_intact, str(right)
    assert broken.finding == "branch_kept", str(broken)
    assert {verdict.evidence for verdict in (*right.verdicts, *broken.verdicts)} == {"cache"}
    assert capsys.readouterr().out == f"{right}\n\n{broken}\n"


def test_every_finding_is_on_the_page() -> None:
    from typing import get_args

    from workers.audit import Finding

    shown = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    assert shown == set(get_args(Finding))


def test_the_example_is_about_twenty_lines_of_session() -> None:
    (session,) = re.findall(r"^class Session\(Audited\):\n(.*?)\n\n\nclass", PAGE, re.MULTILINE | re.DOTALL)
    assert len([line for line in session.splitlines() if line.strip()]) <= 25
