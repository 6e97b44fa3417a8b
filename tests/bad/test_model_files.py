"""Model files as people write them by mistake: each has its one line, which names the file and the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.command import main

GOOD = """source:
  kind: scripted
device: {cpus: 1, gpus: 0}
reply_format: send_line
roles: {tool_return: tool, retrieved_document: user, user_turn: user}
"""
FILES = {
    "empty": ("", "model mine.source is missing"),
    "a list": ("- a\n- b\n", "mine"),
    "a word": ("hello\n", "mine"),
    "no YAML": ("source: {kind: scripted\n", "YAML"),
    "tabs": ("source:\n\tkind: scripted\n", "YAML"),
    "not UTF-8": (b"\xff\xfe\x00s", "UTF-8"),
    "a key misspelt": (GOOD.replace("reply_format", "reply_fromat"), "did you mean 'reply_format'"),
    "a key of the source misspelt": (GOOD.replace("scripted", "scripted\n  decode_mss: 3"), "did you mean 'decode_ms'"),
    "no source": ("reply_format: send_line\nroles: {}\n", "source"),
    "a source that is none": (GOOD.replace("scripted", "scriptd"), "source"),
    "no reply format": (GOOD.replace("reply_format: send_line\n", ""), "reply_format is missing"),
    "a reply format that is none": (GOOD.replace("send_line", "send_lin"), "did you mean 'send_line'"),
    "a precision that is none": (f"{GOOD}dtype: float64\n", "dtype"),
    "an attention that is none": (f"{GOOD}attention: auto\n", "attention"),
    "half a GPU too many": (GOOD.replace("gpus: 0", "gpus: 1.5"), "gpus"),
    "fewer than no GPUs": (GOOD.replace("gpus: 0", "gpus: -1"), "gpus"),
    "no CPU": (GOOD.replace("cpus: 1", "cpus: 0"), "cpus"),
    "a branch of a repository": (
        GOOD.replace("kind: scripted", "kind: hub\n  repo: a/b\n  revision: main"),
        "revision",
    ),
    "a repository without an owner": (
        GOOD.replace("kind: scripted", f"kind: hub\n  repo: b\n  revision: {'0' * 40}"),
        "repo",
    ),
    "a role for no vehicle": (GOOD.replace("user_turn: user", "user_trun: user"), "user_t"),
    "a name of its own": (f"{GOOD}name: another\n", "the name is the file's"),
    "a key twice": (f"{GOOD}reply_format: send_line\n", "reply_format"),
    "a budget of nothing": (f"{GOOD}max_new_tokens: 0\n", "max_new_tokens"),
}


@pytest.mark.parametrize("cause", FILES)
def test_a_model_file_that_is_wrong_has_its_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written, words = FILES[cause]
    (folder := tmp_path / "conf" / "model").mkdir(parents=True)
    (folder / "mine.yaml").write_bytes(written if isinstance(written, bytes) else written.encode())
    code = main(["--config-dir", "conf", "model=mine", "mode=plan"])
    out, err = capsys.readouterr()
    assert code == 1, (out[-300:], err)
    assert err.startswith("error: "), err
    assert len(err.strip().splitlines()) == 1, err
    assert words in err, err
    assert not (tmp_path / "results").exists()


def test_the_file_without_a_mistake_is_planned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "conf" / "model").mkdir(parents=True)
    (folder / "mine.yaml").write_text(GOOD)
    assert main(["--config-dir", "conf", "model=mine", "mode=plan"]) == 0
    assert capsys.readouterr().err == ""


def test_the_class_has_at_least_fifteen_causes() -> None:
    assert len(FILES) >= 15
