"""Messages ↔ token ids: the chat template under a stopped clock, and the tokenizer's ways to write a text."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import jinja2
from transformers.utils import chat_template_utils

from workers.engine.base import Render
from workers.episode import Message
from workers.errors import IsolationError, ModelError, TemplateError

_CONTEXTS = ("", " ", "\n", "\n ")
"""What a carrier may stand after; many tokenizers write a word differently after each."""


_MOMENTS = (datetime.datetime(2025, 1, 1, 12), datetime.datetime(2026, 11, 23, 3, 41, 57))
"""Alike in no part that a template could print."""


def _stopped_clock(at: datetime.datetime) -> AbstractContextManager[Any]:
    """Templates that print the date (`strftime_now`) would give other ids, hence other results, every day."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
            return cls(*at.timetuple()[:6], tzinfo=tz)

    return mock.patch.object(chat_template_utils, "datetime", Clock)


class Chat:
    """A tokenizer and the chat template in use, on the day that `clock` names where one is named."""

    def __init__(self, tokenizer: Any, template: str | None, clock: datetime.date | None = None) -> None:
        self._tokenizer = tokenizer
        noon = datetime.time(12)
        self._moments = _MOMENTS if clock is None else (datetime.datetime.combine(clock, noon),)
        try:
            self._template: str = tokenizer.get_chat_template(template)
        except ValueError:
            raise ModelError(
                "no chat template: the tokenizer brings none; set chat_template in the model's YAML"
            ) from None

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
            IsolationError: it prints the time, and the model's YAML names no day to print.
        """
        turns = [{"role": turn.role, "content": turn.text} for turn in messages]
        try:
            texts = [self._apply(turns, moment, tokenize=False) for moment in self._moments]
            ids = self._apply(turns, self._moments[0], tokenize=True)
        except (jinja2.TemplateError, ValueError, TypeError, KeyError) as error:
            roles = ", ".join(turn.role for turn in messages)
            raise TemplateError(f"the chat template refuses the roles {roles}: {error}") from error
        if len(set(texts)) > 1:
            mend = "name the day to print in the model's YAML, clock: 2025-01-01"
            raise IsolationError("clock_in_template", f"the chat template prints the time; {mend}")
        return Render(text=texts[0], ids=tuple(int(token) for token in ids))

    def _apply(self, turns: list[dict[str, str]], moment: datetime.datetime, *, tokenize: bool) -> Any:
        with _stopped_clock(moment):
            # return_dict would wrap the ids in a mapping, whose length is 2.
            return self._tokenizer.apply_chat_template(
                turns,
                chat_template=self._template,
                tokenize=tokenize,
                add_generation_prompt=True,
                return_dict=False,
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
