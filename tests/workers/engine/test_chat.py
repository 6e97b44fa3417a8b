"""A render is ids and text of one template, on any day; a carrier is found however it was tokenised."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from transformers.utils import chat_template_utils

from workers import engine as engines
from workers.engine import Engine
from workers.episode import Message
from workers.errors import ModelError, TemplateError
from workers.spec import ModelSpec

HELLO = (Message("system", "Be brief."), Message("user", "Hello there."))
MakeSpec = Callable[..., ModelSpec]


def test_a_render_is_plain_ids_of_its_own_text(llama: Engine) -> None:
    """transformers#41626: `apply_chat_template` came to return a mapping, whose length is 2."""
    render = llama.render(HELLO)
    assert all(type(token) is int for token in render.ids)
    assert llama.text(render.ids) == render.text
    assert render.text.endswith("<|im_start|>assistant\n")


def test_the_spec_can_bring_the_template(tiny_spec: MakeSpec) -> None:
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    engine = engines.load(tiny_spec("llama", chat_template=template), num_threads=1)
    assert engine.render(HELLO).text == "[system] Be brief.\n[user] Hello there.\n"


def test_a_template_with_a_slip_of_syntax_fails_at_load(tiny_spec: MakeSpec) -> None:
    with pytest.raises(ModelError, match="chat template is not Jinja: line 1"):
        engines.load(tiny_spec("llama", chat_template="{% for m in messages %}{{ m.content }"), num_threads=1)


def test_a_template_that_prints_the_date_prints_the_same_one_every_day(tiny_spec: MakeSpec) -> None:
    template = "{{ strftime_now('%d %B %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    engine = engines.load(tiny_spec("llama", chat_template=template, clock="2025-01-01"), num_threads=1)
    assert engine.render(HELLO).text.startswith("01 January 2025")
    assert chat_template_utils.datetime is datetime.datetime


def test_a_template_that_refuses_a_role_says_why_in_one_line(tiny_spec: MakeSpec) -> None:
    """text-generation-inference#3198: a tool's turn ended in an internal error."""
    template = "{{ raise_exception('System role\nnot supported') }}"
    engine = engines.load(tiny_spec("llama", chat_template=template), num_threads=1)
    with pytest.raises(TemplateError, match=r"refuses the roles system, user: System role not supported") as refusal:
        engine.render(HELLO)
    assert "\n" not in str(refusal.value)


def test_what_breaks_inside_a_template_is_a_refusal_too(tiny_spec: MakeSpec) -> None:
    for body in ("messages[9].content", "1 // 0", "messages.append(1)", "tools.name.first", "1 + messages"):
        engine = engines.load(tiny_spec("llama", chat_template=f"{{{{ {body} }}}}"), num_threads=1)
        with pytest.raises(TemplateError, match="refuses the roles system, user: "):
            engine.render(HELLO)


def test_a_template_is_given_the_arguments_of_the_spec(tiny_spec: MakeSpec) -> None:
    arguments = {"enable_thinking": False, "effort": "low"}
    spec = tiny_spec("llama", chat_template="{{ effort }} {{ enable_thinking is false }}", template_arguments=arguments)
    assert engines.load(spec, num_threads=1).render(HELLO).text == "low True"


@pytest.mark.parametrize("name", ["enable_thinkin", "messages", "add_generation_prompt", "tokenize", "strftime_now"])
def test_an_argument_that_would_be_swallowed_is_refused_at_loading(tiny_spec: MakeSpec, name: str) -> None:
    template = "{% if enable_thinking and add_generation_prompt %}{{ messages }}{{ strftime_now('%d') }}{% endif %}"
    with pytest.raises(ModelError, match=rf"random-llama: template_arguments: .* reads no '{name}'.*enable_thinking"):
        engines.load(tiny_spec("llama", chat_template=template, template_arguments={name: False}), num_threads=1)


def test_the_options_of_the_spec_shape_the_turns(tiny_spec: MakeSpec) -> None:
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    spec = tiny_spec("llama", chat_template=template, system="fold", acknowledgement="Noted.")
    text = engines.load(spec, num_threads=1).render((*HELLO, Message("tool", "{}"))).text
    assert text == "[user] Be brief.\n\nHello there.\n[assistant] Noted.\n[tool] {}\n"


def test_another_template_is_another_hash(tiny_spec: MakeSpec, llama: Engine) -> None:
    engine = engines.load(tiny_spec("llama", chat_template="{{ messages }}"), num_threads=1)
    assert len(engine.facts.template_sha256) == 64
    assert engine.facts.template_sha256 != llama.facts.template_sha256


@pytest.mark.parametrize("context", ["{}", "to {}.", "to\n{}", "to:\n\n{}!"])
@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_a_carrier_is_found_by_ids_in_its_usual_contexts(
    tiny: Callable[[str], Engine], architecture: str, context: str
) -> None:
    engine = tiny(architecture)
    ids = engine.render((Message("user", context.format("red-canary")),)).ids
    forms = engine.segmentations("red-canary")
    assert any(ids[at : at + len(form)] == form for form in forms for at in range(len(ids)))
    assert () not in forms
    assert engine.segmentations("") == () or architecture == "llama"


@pytest.mark.parametrize(
    "body",
    [
        "''.__class__.__mro__[1].__subclasses__()",
        "messages.__class__.__base__.__subclasses__()",
        "raise_exception.__globals__['__builtins__']",
        "self.__init__.__globals__",
        "cycler.__init__.__globals__.os.system('true')",
        "range(10 ** 9) | list",
        "('%c' % 0).__class__.__format__.__self__",
    ],
)
def test_a_template_reaches_nothing_outside_its_sandbox(tiny_spec: MakeSpec, body: str) -> None:
    engine = engines.load(tiny_spec("llama", chat_template=f"{{{{ {body} }}}}"), num_threads=1)
    with pytest.raises(TemplateError):
        engine.render(HELLO)
