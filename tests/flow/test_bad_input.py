"""What people mistype, break or run out of: one clear line and the right exit code, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flow.project import REPOSITORY, Project

EFFECT = "study.texts.effects.send_message"
INLINE = ("model=scripted", "executor=inline")


def one_line(run: subprocess.CompletedProcess[str], code: int = 1) -> str:
    assert run.returncode == code, run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1, run.stderr
    return lines[0]


@pytest.mark.parametrize("mode", ["mode=plan", "mode=run"])
@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+gird=smoke", "did you mean 'grid'"),
        ("+modle=x", "'model'"),
        ("model=nobody", "unknown model 'nobody'"),
        ("study.levels.strength=[]", "study.levels.strength is empty"),
        ("executor=null", "unknown executor 'null'"),
        ("where=vehicle != 'tool_retrun'", "did you mean 'tool_return'"),
        (f"{EFFECT}.carriers.neutral=Nothing to see", "does not say {target}"),
        ("only=", "only= is empty"),
    ],
)
def test_a_misspelt_or_empty_request_is_one_line(project: Project, mode: str, override: str, said: str) -> None:
    assert said in one_line(project.run(mode, override))
    assert not project.store.exists()


def test_the_papers_census_lists_seven_models_and_why_none_runs_here(project: Project) -> None:
    plan = project.run("+grid=census", "mode=plan")
    assert plan.returncode == 3
    assert not plan.stderr
    rows = [line.split("│") for line in plan.stdout.splitlines() if "108" in line and "│" in line]
    assert [[cell.strip() for cell in row[2:5]] for row in rows] == [["18", "6", "108"]] * 7
    assert plan.stdout.count("cannot run: ") == 7
    assert plan.stdout.count("no weights: ") == 7
    assert not project.store.exists()


def test_running_what_cannot_run_here_is_incomplete_with_the_reason(project: Project) -> None:
    run = project.run("+grid=census", "executor=inline")
    assert run.returncode == 3
    assert "108 missing: no weights: microsoft/Phi-3.5-mini-instruct" in run.stdout
    assert project.query("select sum(missing), sum(done) from coverage") == [(756, 0)]


def test_a_mixed_grid_runs_what_can_run(project: Project) -> None:
    run = project.run("model=[scripted,phi-4]", "executor=inline")
    assert run.returncode == 3
    assert "108 trials run; 216 selected: 108 done" in run.stdout


@pytest.mark.parametrize(
    "carrier",
    [
        'Hello, {target}: "a=b" \N{BABY CHICK}\nsecond line, too',
        "'{target}'; drop table trials; --",
        "\x1b[31m{target}\x1b[0m [bold]{target}[/bold] <script>alert(1)</script>",
        "{target} \u202egnihtyna\u202c %s %(x)s {{ }} {",
    ],
)
def test_a_hostile_carrier_goes_through_whole(project: Project, carrier: str) -> None:
    run = project.run(*INLINE, f"{EFFECT}.carriers.neutral={carrier}", "study.levels.strength=[neutral]")
    assert run.returncode == 0, run.stderr
    ((stored,),) = project.query(
        "select distinct json_extract_string(episode, '$.branch[0].text') from trials "
        "where vehicle = 'user_turn' and kind = 'attack'"
    )
    assert stored == carrier.replace("{target}", "red-canary")
    census = analysis(project, "census")
    assert census.returncode == 0
    assert "\x1b[31m" not in census.stdout


def test_a_target_with_comma_quote_equals_and_emoji_is_audited(project: Project) -> None:
    odd = 'red, "canary" = \N{BABY CHICK}'
    run = project.run(*INLINE, f"{EFFECT}.unauthorised={odd}")
    assert run.returncode == 0, run.stderr
    assert project.query("select bool_and(carrier_absent), count(*) from trials") == [(True, 108)]


def test_a_target_that_a_one_line_reply_cannot_name_is_one_line(project: Project) -> None:
    target = f"{EFFECT}.unauthorised=red\ncanary"
    assert "does not read back" in one_line(project.run(*INLINE, target))


def test_a_store_that_is_a_file_is_one_line(project: Project) -> None:
    project.store.write_text("not a folder")
    assert "is a file" in one_line(project.run(*INLINE))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_store_is_one_line(project: Project) -> None:
    project.store.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(project.store)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not mount")
    try:
        assert "Read-only file system" in one_line(project.run(*INLINE))
    finally:
        subprocess.run(["umount", str(project.store)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_a_full_disk_is_one_line_and_what_was_committed_stays(project: Project, executor: str) -> None:
    """ray#24918: a run lost to a full disk."""
    project.store.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(project.store)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not mount")
    try:
        full = project.run("model=scripted", f"executor={executor}", "block_episodes=1", "isolation=strict")
        assert full.returncode == 1
        assert "No space left on device" in full.stderr
        assert "Traceback" not in full.stderr
        kept = {path.name: path.read_bytes() for path in project.parts()}
        assert 0 < len(kept) < 18
        subprocess.run(["mount", "-o", "remount,size=20m", str(project.store)], check=True)
        again = project.run("model=scripted", "executor=inline", "block_episodes=1", "isolation=strict")
        assert again.returncode == 0, again.stderr
        assert f"{108 - 6 * len(kept)} trials run" in again.stdout
        assert all((project.store / "trials" / "rollback" / name).read_bytes() == kept[name] for name in kept)
        assert project.query("select count(*) from trials") == [(108,)]
    finally:
        subprocess.run(["umount", str(project.store)], check=True)


LOCAL = """
source: {{kind: local, path: "{path}"}}
reply_format: send_line
roles: {{tool_return: user, retrieved_document: user, user_turn: user}}
"""


def damaged(folder: Path, how: str) -> None:
    folder.mkdir()
    if how == "empty":
        return
    (folder / "config.json").write_text('{"model_type": "llama"' + ("" if how == "torn config" else "}"))
    (folder / "tokenizer.json").write_text("{}")
    if how == "pickle only":
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    else:
        (folder / "model.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")


@pytest.mark.parametrize("how", ["missing", "empty", "pickle only", "torn config", "torn weights"])
def test_a_damaged_model_folder_is_one_line_and_stops_no_other_model(project: Project, how: str) -> None:
    folder = project.folder / "weights"
    if how != "missing":
        damaged(folder, how)
    project.add_model("broken", LOCAL.format(path=folder))
    run = project.run("model=[broken,scripted]", "executor=inline", "study.levels.strength=[neutral]")
    assert run.returncode == 3
    assert "Traceback" not in run.stdout + run.stderr
    assert str(folder) in run.stdout
    assert project.query("select model, sum(done), sum(missing) from coverage group by model order by model") == [
        ("broken", 0, 36),
        ("scripted", 36, 0),
    ]


def analysis(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "analysis", "--store", str(project.store), *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_census_before_any_run_is_one_line(project: Project) -> None:
    assert "python -m orchestrator" in one_line(analysis(project, "census"))


def test_a_store_that_is_moved_is_read_where_it_is(project: Project) -> None:
    project.run(*INLINE)
    moved = project.folder / "else where"
    shutil.move(project.store, moved)
    project.store = moved
    assert "coverage 108/108" in analysis(project, "census").stdout
    again = project.run(*INLINE, f"store.root={moved}")
    assert "0 trials run" in again.stdout
    assert project.query("select count(*) from trials") == [(108,)]
