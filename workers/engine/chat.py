"""Messages ↔ token ids: the chat template under a stopped clock, and the tokenizer's ways to write a text."""

from __future__ import annotations

import datetime
import hashlib
import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import jinja2
import jinja2.meta
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from workers.engine.base import Render
from workers.episode import Message
from workers.errors import ModelError, TemplateError, nearest
from workers.spec import ModelSpec
from workers.turns import arranged

_CONTEXTS = ("", " ", "\n", "\n ")
"""What a carrier may stand after; many tokenizers write a word differently after each."""


_MOMENTS = (datetime.datetime(2025, 1, 1, 12), datetime.datetime(2026, 11, 23, 3, 41, 57))
"""Alike in no part that a template could print."""

_REFUSALS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a template raises on turns that it does not expect, on purpose or by accident."""


def _stopped_clock(at: datetime.datetime) -> AbstractContextManager[Any]:
    """Templates that print the date (`strftime_now`) would give other ids, hence other results, every day."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
            return cls(*at.timetuple()[:6], tzinfo=tz)

    return mock.patch.object(chat_template_utils, "datetime", Clock)


def _variables(template: str) -> frozenset[str]:
    """Names that the template reads and that are for the model's YAML to give."""
    environment = chat_template_utils._compile_jinja_template(template).environment
    read: set[str] = jinja2.meta.find_undeclared_variables(environment.parse(template))
    parameters = inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters
    return frozenset(read - set(environment.globals) - {"messages", *parameters} | read & {"tools", "documents"})


class Chat:
    """A tokenizer and the chat template in use, on the turns and the day that the model's YAML asks for."""

    def __init__(self, tokenizer: Any, model: ModelSpec) -> None:
        self.model = model
        self._tokenizer = tokenizer
        noon = datetime.time(12)
        self._moments = _MOMENTS if model.clock is None else (datetime.datetime.combine(model.clock, noon),)
        try:
            self._template: str = tokenizer.get_chat_template(model.chat_template)
        except ValueError:
            raise ModelError(
                "no chat template: the tokenizer brings none; set chat_template in the model's YAML"
            ) from None
        try:
            chat_template_utils._compile_jinja_template(self._template)
        except jinja2.TemplateSyntaxError as fault:
            message = f"{model.name}: its chat template is not Jinja: line {fault.lineno}: {fault.message}"
            raise ModelError(message) from fault
        self._check_arguments()

    def _check_arguments(self) -> None:
        """Jinja swallows a variable that it does not know: `enable_thinkin: false` would change nothing."""
        known = _variables(self._template) if self.model.template_arguments else frozenset()
        for name in self.model.template_arguments:
            if name not in known:
                raise ModelError(
                    f"{self.model.name}: template_arguments: its chat template reads no {name!r}{nearest(name, known)}"
                )

    @property
    def template_sha256(self) -> str:
        """Hash of the template's text."""
        return hashlib.sha256(self._template.encode()).hexdigest()

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own end of sequence; some models' generation config does not list it."""
        eos: int | None = self._tokenizer.eos_token_id
        return eos

    @property
    def bos_id(self) -> int | None:
        """The tokenizer's beginning of sequence."""
        bos: int | None = self._tokenizer.bos_token_id
        return bos

    def render(self, messages: Sequence[Message]) -> Render:
        """Messages → text and ids, generation prompt included.

        Raises:
            TemplateError: the template refuses the messages.
        """
        turns = arranged(messages, self.model)
        try:
            texts = [self._apply(turns, moment, tokenize=False) for moment in self._moments]
            ids, spans = self._tokenized(turns)
        except _REFUSALS as error:
            roles = ", ".join(turn.role for turn in turns)
            raise TemplateError(f"the chat template refuses the roles {roles}: {str(error)[:200]}") from error
        return Render(text=texts[0], ids=ids, spans=spans, is_dated=len(set(texts)) > 1)

    def _tokenized(self, turns: Sequence[Message]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Ids, and the characters that each writes, from one and the same pass of the tokenizer."""
        has_offsets = bool(getattr(self._tokenizer, "is_fast", False))
        asked = {"tokenizer_kwargs": {"return_offsets_mapping": True}} if has_offsets else {}
        found = self._apply(turns, self._moments[0], tokenize=True, return_dict=True, **asked)
        ids = tuple(int(token) for token in found["input_ids"])
        return ids, tuple((int(start), int(stop)) for start, stop in found.get("offset_mapping", ()))

    def _apply(self, turns: Sequence[Message], moment: datetime.datetime, *, tokenize: bool, **options: Any) -> Any:
        with _stopped_clock(moment):
            return self._tokenizer.apply_chat_template(
                [{"role": turn.role, "content": turn.text} for turn in turns],
                chat_template=self._template,
                tokenize=tokenize,
                add_generation_prompt=True,
                **options,
                **self.model.template_arguments,
            )

    def text(self, ids: Sequence[int], *, keeps_special: bool = True) -> str:
        """Ids → text, no clean-up."""
        decoded: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=not keeps_special, clean_up_tokenization_spaces=False
        )
        return decoded

    def encode(self, text: str) -> tuple[int, ...]:
        """Text → ids, no special tokens added."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The ways the tokenizer may write `text`: alone, after a space, after a line break."""
        forms = {self.encode(context + text) for context in _CONTEXTS}
        for context in _CONTEXTS[1:]:
            # Where the context keeps its own tokens, what follows them is the text's form without it.
            lead, whole = self.encode(context), self.encode(context + text)
            if whole[: len(lead)] == lead:
                forms.add(whole[len(lead) :])
        return tuple(sorted(form for form in forms if form))
