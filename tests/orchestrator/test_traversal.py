"""A name is no path: whatever is named cannot lead out of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import command

OUT = "../../outside"


@pytest.mark.parametrize("key", ["name", "model", "study", "grid", "tracking", "store", "executor"])
@pytest.mark.parametrize("mode", ["plan"])
def test_a_name_that_leads_out_of_its_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, mode: str
) -> None:
    (tmp_path / "conf" / "model").mkdir(parents=True)
    for group in ("model", "study", "grid", "tracking", "store", "executor"):
        (tmp_path / "conf" / group).mkdir(exist_ok=True)
    (tmp_path / "outside.yaml").write_text("kind: 'off'\n")
    asked = [f"mode={mode}", f"store.root={tmp_path / 'results'}", f"{key}={OUT}"]
    assert command.main(["--config-dir", str(tmp_path / "conf"), *asked]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("error: ")
    assert not (tmp_path / "results").exists()
