"""What a message says on the terminal holds no secret and nothing that acts."""

from __future__ import annotations

import unicodedata

import pytest

from orchestrator import command
from orchestrator.secrets import masked
from orchestrator.terminal import plain
from tests.hostile import TEXTS

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_message_is_one_line_that_moves_no_cursor(text: str) -> None:
    acting = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [char for char in plain(text) if unicodedata.category(char) in acting]


@pytest.mark.parametrize("key", ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_a_secret_of_the_environment_is_in_no_message(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SECRET in masked(f"cannot log in with {SECRET}")
    monkeypatch.setenv(key, SECRET)
    assert masked(f"cannot log in with {SECRET}") == "cannot log in with ***"


@pytest.mark.parametrize(
    "override",
    [
        f"tracking.api_key={SECRET}",
        f"+tracking.password={SECRET}",
        f"store.root=s3://key:{SECRET}@bucket/x",
        f"model=https://me:{SECRET}@host/x",
    ],
)
def test_a_secret_of_the_command_line_is_in_no_error(override: str, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["mode=plan", "tracking=off", override])
    said = capsys.readouterr()
    assert SECRET not in said.err + said.out


def test_a_traceback_holds_no_secret_and_no_escape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise RuntimeError(f"\x1b[2J\u202e {SECRET}")

    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(command, "_carried_out", broken)
    assert command.main([]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert SECRET not in said
    assert "RuntimeError: \\x1b[2J" in said


@pytest.mark.parametrize(
    "line",
    [
        "study.decode.max_new_tokens: input should be a valid integer, got 'x'",
        "the reply needs max_new_tokens=24 or more",
        "tokenizer: no such file",
    ],
)
def test_a_message_about_tokens_that_are_no_secret_stays_whole(line: str) -> None:
    assert masked(line) == line
