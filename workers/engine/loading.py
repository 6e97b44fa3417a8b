"""A model spec → an engine: where vendor loading happens, and where its errors become one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel

from workers.engine import kernels
from workers.engine.causal import CausalEngine
from workers.engine.chat import Chat
from workers.engine.quiet import hush, parsed_once, quiet
from workers.engine.random_weights import build
from workers.engine.tokenizer import gguf_tokenizer
from workers.engine.weights import converted
from workers.errors import ModelError, ResidueError, raise_if_full
from workers.sources import content_digest, locate
from workers.spec import ModelSpec, RandomSource

_SUPPORTED = ((5, 20), (5, 40))
"""transformers, from and below: crop meant something else before, and the cache API is to change after."""


def load_engine(spec: ModelSpec, *, num_threads: int, weights: kernels.Weights = "packed") -> CausalEngine:
    """The engine that `spec` asks for; dtype and attention are the spec's, files are local, nothing is fetched.

    Args:
        weights: what invariant kernels read, where the model can have them.

    Raises:
        ModelError: what cannot be loaded, where, and the mend.
    """
    check_version()
    hush()
    path = locate(spec.source)
    torch.set_num_threads(num_threads)
    torch.backends.cudnn.allow_tf32 = False
    with quiet(), parsed_once(), _translated(spec, path):
        tokenizer = _tokenizer(spec, path)
        model = _model(spec, path, len(tokenizer))
        model.train(False).requires_grad_(False)
        kernels.adopt(model, weights)
        return CausalEngine(model, Chat(tokenizer, spec))


def check_version() -> None:
    """Refuse a transformers whose caches behave in another way.

    Raises:
        ModelError: with the line that installs one that is supported.
    """
    version = metadata.version("transformers")
    major, minor = (int(part) for part in version.split(".")[:2])
    low, high = _SUPPORTED
    if not low <= (major, minor) < high:
        bounds = f">={low[0]}.{low[1]},<{high[0]}.{high[1]}"
        raise ModelError(
            f"transformers {version} is not supported; install it with: pip install 'transformers{bounds}'"
        )


def _model(spec: ModelSpec, path: Path, num_tokens: int) -> PreTrainedModel:
    if isinstance(spec.source, RandomSource):
        dtype = getattr(torch, spec.dtype)
        network = build(spec.source, num_tokens=num_tokens, dtype=dtype, attention=spec.attention)
        return network.to(_device(spec))  # type: ignore[arg-type, no-any-return]
    if path.is_dir():
        return _pretrained(spec, path)
    content = content_digest(spec.source)
    return converted(path, content, spec.dtype, lambda place: _pretrained(spec, place))


def _pretrained(spec: ModelSpec, path: Path) -> PreTrainedModel:
    """The model of a folder or a GGUF. Safetensors are mapped where the dtype is theirs: slots share the pages."""
    device = _device(spec)
    weights = {"use_safetensors": True} if path.is_dir() else {"quantization_config": _dense()}
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        **_files(path),
        **weights,
        dtype=getattr(torch, spec.dtype),
        attn_implementation=spec.attention,
        device_map="balanced" if spec.device.gpus > 1 else {"": device},
        output_loading_info=True,
    )
    model: PreTrainedModel = loaded[0]
    report: dict[str, Any] = loaded[1]
    # transformers fills what a checkpoint lacks with random numbers, and only warns.
    lacking = sorted(map(str, {*report["missing_keys"], *report["mismatched_keys"]}))
    if lacking:
        raise ModelError(f"cannot load {spec.name}: {path} lacks {len(lacking)} weights, such as {lacking[0]}")
    return model


def _tokenizer(spec: ModelSpec, path: Path) -> Any:
    if path.is_dir():
        return AutoTokenizer.from_pretrained(**_files(path))
    source = spec.source.tokenizer if isinstance(spec.source, RandomSource) else spec.source
    return gguf_tokenizer(path, content_digest(source, needs_weights=False))


def _files(path: Path) -> dict[str, Any]:
    """Arguments that name local files, and refuse the network and a repository's own code."""
    place = {"gguf_file": path.name} if path.is_file() else {}
    folder = path.parent if path.is_file() else path
    return place | {
        "pretrained_model_name_or_path": str(folder),
        "local_files_only": True,
        "trust_remote_code": False,
    }


def _dense() -> Any:
    # With the `kernels` package installed, transformers would keep the blocks packed, fetch a kernel from the network
    # and compute other numbers.
    return GgufConfig(dequantize=True)


def _device(spec: ModelSpec) -> torch.device:
    if spec.device.gpus == 0:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ModelError(f"{spec.name} asks for {spec.device.gpus:g} GPUs and torch sees none; set device.gpus=0")
    return torch.device("cuda")


@contextmanager
def _translated(spec: ModelSpec, path: Path) -> Iterator[None]:
    """Vendor exceptions of every kind become one line; running out of memory stays what it is (DESIGN §4.7)."""
    try:
        yield
    except ResidueError:
        raise
    except ImportError as error:
        raise ModelError(f"cannot load {spec.name} from {path}: {error}") from error
    except Exception as error:
        raise_if_full(error)
        raise ModelError(f"cannot load {spec.name} from {path}: {_reason(error, spec)}") from error


def _reason(error: Exception, spec: ModelSpec) -> str:
    text = str(error)
    if "attention implementation" in text or "attn_implementation" in text:
        return f"it cannot do attention={spec.attention}; set attention=eager in the model's YAML"
    return text[:300] or type(error).__name__
