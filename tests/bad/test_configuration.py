"""Configuration keys, values and command lines that somebody will type: each has its one line, with the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.command import main

KEYS = {
    "a key misspelt": ("stoer.root=x", "did you mean 'store'"),
    "a nested key misspelt": ("store.rot=x", "did you mean 'root'"),
    "a key of the study misspelt": ("study.arm=[stale]", "did you mean 'arms'"),
    "an axis that is none": ("study.levels.vehicel=[user_turn]", "did you mean 'vehicle'"),
    "a key added with +": ("+modle=scripted", "'model'?"),
    "a grid added under a wrong name": ("+gird=full", "did you mean 'grid'"),
    "a key added with ++": ("++isolatoin=strict", "did you mean 'isolation'"),
    "a key of another executor": ("executor=inline executor.slot=2", "in executor; there is kind"),
    "a key of the tracker": ("tracking.projekt=x", "did you mean 'project'"),
    "a key of the decoding": ("study.decode.temprature=0.3", "did you mean 'temperature'"),
    "a key with a space in it": ("'store root=x'", "store root"),
    "a key in capitals": ("Isolation=strict", "did you mean 'isolation'"),
    "a key that Hydra keeps for itself": ("hydra.run.dir=x", "hydra"),
    "a key that is taken away": ("~isolation", "isolation"),
    "a key with a dot at its end": ("store.=x", "store."),
    "a text in the place of a mapping": ("study.texts=hello", "study.texts"),
    "a key below a value": ("isolation.mode=strict", "isolation"),
}
VALUES = {
    "a word that is no choice": ("isolation=strickt", "'class' or 'strict'"),
    "a word in the place of a number": ("kv_budget_mb=lots", "kv_budget_mb"),
    "a number below the least": ("block_episodes=0", "block_episodes"),
    "a number above the most": ("block_episodes=99999999", "block_episodes"),
    "a fraction in the place of a whole number": ("limit=1.5", "limit"),
    "a number that is none": ("hang_s=nan", "hang_s"),
    "an endless number": ("hang_s=inf", "hang_s"),
    "a patience of nothing": ("hang_s=0", "hang_s"),
    "a level that does not exist": ("study.levels.vehicle=[tool_retrun]", "did you mean 'tool_return'"),
    "an arm that does not exist": ("study.arms=[stael]", "did you mean 'stale'"),
    "an arm named twice": ("study.arms=[stale,stale]", "twice"),
    "no arm at all": ("study.arms=[]", "study.arms is empty"),
    "a list in the place of a word": ("name=[a,b]", "name"),
    "a name that is a path": ("name=../x", "name"),
    "a name that is too long": (f"name={'x' * 81}", "name"),
    "a store without a name": ("store.root=''", "store.root"),
    "a temperature below zero": ("study.decode.temperature=-1", "temperature"),
    "no draws": ("study.decode.num_draws=0", "num_draws"),
    "a reply of no tokens": ("study.decode.max_new_tokens=0", "max_new_tokens"),
    "a list in the place of a mapping": ("study.gates=[capability]", "study.gates is a mapping"),
    "a model that does not exist": ("model=scriptde", "did you mean 'scripted'"),
    "a gate that does not exist": ("+study.gates.capabilty={}", "did you mean 'capability'"),
    "an interpolation of nothing": ("name=${nothing}", "nothing"),
    "a value that must be given": ("name=???", "name"),
    "a store at an address": ("store.root=s3://bucket", "should be a folder"),
}
WORDS = {
    "an option that does not exist": (["--quite"], "--quite"),
    "an option without its value": (["--config-dir"], "--config-dir"),
    "a folder that does not exist": (["--config-dir", "/nowhere"], "no such folder"),
    "a word without an equals sign": (["census"], "census"),
    "an override of nothing": (["=census"], "census"),
    "a grid that does not exist": (["+grid=cencus"], "did you mean 'census'"),
    "two grids": (["+grid=census", "+grid=guard"], "grid"),
    "an executor that does not exist": (["executor=slurm"], "did you mean|inline"),
    "a bracket left open": (["study.arms=[stale"], "study.arms"),
    "a quote left open": (["name='x"], "name"),
    "a condition that is no expression": (["where=vehicle =="], "is not an expression"),
    "a condition by one equals sign": (["where=vehicle = 'user_turn'"], "two equals signs"),
    "a condition on no axis": (["where=vehicel == 'user_turn'"], "did you mean 'vehicle'"),
    "a condition that calls": (["where=__import__('os')"], "where"),
    "a condition that nothing meets": (["where=vehicle == 'nothing'"], "nothing"),
    "a cell that is not asked for by a replay": (["cell=abc"], "mode=replay and cell="),
    "a replay without its cell": (["mode=replay"], "mode=replay and cell="),
    "a cell id that nobody has": (["only=[zzzz]"], "zzzz"),
}


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The one line about this command."""
    try:
        code = main(words)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    out, err = capsys.readouterr()
    assert code == 1, (words, out[-300:], err)
    assert err.startswith("error: "), err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1, err
    return err


@pytest.mark.parametrize("cause", [*KEYS, *VALUES])
def test_a_wrong_key_or_value_has_its_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    override, words = (KEYS | VALUES)[cause]
    several = [override.strip("'")] if override.startswith("'") else override.split(" ")
    base = [] if any(one.startswith("model=") for one in several) else ["model=scripted"]
    assert words in said(capsys, [*base, "mode=plan", *several])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cause", WORDS)
def test_a_wrong_command_line_has_its_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given, words = WORDS[cause]
    base = ["model=scripted"] if any("mode=" in word for word in given) else ["model=scripted", "mode=plan"]
    line = said(capsys, [*base, *given])
    assert any(word in line for word in words.split("|")), line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("causes", [KEYS, VALUES, WORDS])
def test_a_class_has_at_least_fifteen_causes(causes: dict[str, object]) -> None:
    assert len(causes) >= 15
