"""A GGUF's weights are converted once a node and mapped from then on, or are this process's own, with the same bits."""

from __future__ import annotations

import copy
import errno
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Lock, Thread
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from workers.engine import Engine, disk, loading, weights
from workers.sources import locate

TINY = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, vocab_size=2000)
MODEL = AutoModelForCausalLM.from_config(TINY, dtype=torch.float32).train(False)


def made() -> PreTrainedModel:
    return copy.deepcopy(MODEL)


class Converter:
    """Makes the same model of every file, and reads folders; `calls` are the files."""

    def __init__(self) -> None:
        self.calls: list[Path] = []

    def __call__(self, path: Path) -> PreTrainedModel:
        if path.is_dir():
            return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, use_safetensors=True)
        self.calls.append(path)
        return made()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESIDUE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def load() -> Converter:
    return Converter()


def start(load: Converter, content: str = "a", dtype: str = "float32") -> PreTrainedModel:
    return weights.converted(Path("model.gguf"), content, dtype, load)


def kept(root: Path) -> list[Path]:
    return sorted((root / "models").glob("*"))


def anonymous_kb(file: Path) -> int | None:
    """Memory of this process's own in its mappings of the file; None where it maps none of it."""
    found, own = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            is_file = bool(rest) and rest[-1] == str(file)
            found = found or is_file
        elif first == "Anonymous:" and is_file:
            own += int(rest[0])
    return own if found else None


def test_the_second_start_reads_what_the_first_converted_and_both_are_the_model(load: Converter, root: Path) -> None:
    first, second = start(load), start(load)
    assert len(load.calls) == 1
    assert len(kept(root)) == 1
    assert weights.is_same(first, made())
    assert weights.is_same(second, made())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_kept_is_mapped_and_its_pages_are_the_files_own(load: Converter, root: Path) -> None:
    models = [start(load), start(load)]
    for model in models:
        model(torch.tensor([[1, 2, 3]]))
    (place,) = kept(root)
    assert anonymous_kb(place / "model.safetensors") == 0


@pytest.mark.parametrize(("content", "dtype"), [("b", "float32"), ("a", "bfloat16")])
def test_another_file_or_dtype_is_converted_anew(load: Converter, content: str, dtype: str) -> None:
    start(load)
    start(load, content, dtype)
    start(load)
    assert len(load.calls) == 2


def test_another_version_of_a_converter_makes_other_weights(load: Converter, monkeypatch: pytest.MonkeyPatch) -> None:
    start(load)
    monkeypatch.setattr(disk, "version", lambda package: f"{package} 99")
    start(load)
    assert len(load.calls) == 2


def cut(place: Path) -> None:
    file = place / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4096])


def flip(place: Path) -> None:
    file = place / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def remove(place: Path) -> None:
    (place / "config.json").unlink()


def add(place: Path) -> None:
    (place / "adapter_config.json").write_text("{}")


def replace(place: Path) -> None:
    """A file that somebody put there, with a sum of its own."""
    (place / "model.safetensors").write_bytes(b"not safetensors")
    (place / disk._SUM).write_text(disk._sum(place))


@pytest.mark.parametrize("damage", [cut, flip, remove, add, replace])
def test_what_is_torn_or_foreign_is_noticed_and_made_anew(
    load: Converter, root: Path, damage: Callable[[Path], None]
) -> None:
    start(load)
    (place,) = kept(root)
    damage(place)
    assert weights.is_same(start(load), made())
    assert len(load.calls) == 2
    assert weights.is_same(start(load), made())
    assert len(load.calls) == (3 if damage is replace else 2)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fault", [FULL, SafetensorError("I/O error: No space left on device (os error 28)")])
def test_a_full_disk_costs_the_sharing_and_is_said(
    load: Converter, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with caplog.at_level(logging.WARNING):
        assert weights.is_same(start(load), made())
    assert kept(root) == []
    assert "cannot be kept" in caplog.text
    assert "No space left on device" in caplog.text


def test_a_folder_that_cannot_be_written_costs_the_sharing_and_is_said(
    load: Converter, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.write_text("a file where the folder would be")
    assert weights.is_same(start(load), made())
    assert weights.is_same(start(load), made())
    assert len(load.calls) == 2
    assert "cannot be kept" in caplog.text


def test_two_slots_that_start_at_once_keep_one_copy(root: Path) -> None:
    # Slots are processes: in threads of one, transformers' own patches while it loads would meet.
    together, alone, models = Barrier(2), Lock(), []

    class Slow(Converter):
        def __call__(self, path: Path) -> PreTrainedModel:
            if not path.is_dir():
                together.wait(30)
            with alone:
                return super().__call__(path)

    slots = [Thread(target=lambda: models.append(start(Slow()))) for _ in range(2)]
    for slot in slots:
        slot.start()
    for slot in slots:
        slot.join()
    assert len(kept(root)) == 1
    assert disk.is_whole(kept(root)[0])
    assert all(weights.is_same(model, made()) for model in models)
    assert len(models) == 2


def test_what_does_not_read_back_as_the_model_is_not_kept(root: Path) -> None:
    class Forgetful(Converter):
        def __call__(self, path: Path) -> PreTrainedModel:
            model = super().__call__(path)
            if path.is_dir():
                model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq * 2
            return model

    load = Forgetful()
    assert weights.is_same(start(load), made())
    assert kept(root) == []


def test_two_models_are_the_same_only_to_the_last_bit() -> None:
    assert weights.is_same(made(), made())
    moved, turned, other = made(), made(), made()
    with torch.no_grad():
        moved.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-6
        turned.model.rotary_emb.inv_freq[0] *= 1 + 1e-6
    other.config.rms_norm_eps = 1e-5
    assert not any(weights.is_same(model, made()) for model in (moved, turned, other))


def test_the_embedded_model_is_the_one_in_its_gguf(smollm2: Engine) -> None:
    engine: Any = smollm2
    spec = engine._chat.model
    inside, mapped = (loading._pretrained(spec, locate(spec.source)).state_dict(), engine._model.state_dict())
    assert inside.keys() == mapped.keys()
    assert all(torch.equal(mapped[name], tensor) for name, tensor in inside.items())
