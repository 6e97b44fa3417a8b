"""The split on real models' chat templates: it holds, or one line says why not and what to write into the YAML."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import jinja2
import pytest
import yaml
from transformers.utils import chat_template_utils

from orchestrator import config
from orchestrator.config import Composed
from tests.workers.engine import chat_templates
from tests.workers.engine.chat_templates import engine_with, template
from workers.engine import Engine
from workers.episode import Episode, Message
from workers.errors import IsolationError, TemplateError
from workers.spec import HubSource, ModelSpec
from workers.split import Split, split

PAPER = (
    "phi-3.5-mini",
    "glm-4-9b",
    "granite-3.3-8b",
    "qwen2.5-14b",
    "deepseek-r1-distill-llama-8b",
    "phi-4",
    "seed-oss-36b",
    "qwen3-30b-a3b",
)

USER: dict[str, Any] = {"roles": {"tool_return": "user"}}
ALTERNATE = {"acknowledgement": "Understood."}
FOLD = {"system": "fold"}
CLOCK = {"clock": datetime.date(2025, 1, 1)}
MAKERS: dict[str, dict[str, Any]] = {
    "01-ai-Yi-1.5-9B-Chat": USER,
    "CohereLabs-command-a-plus-05-2026-w4a4": {},
    "HuggingFaceTB-SmolLM3-3B": {},
    "LGAI-EXAONE-EXAONE-4.0-32B": {},
    "LiquidAI-LFM2-1.2B": {},
    "MiniMaxAI-MiniMax-M2": USER,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {},
    "Qwen-Qwen3.5-0.8B": {},
    "ai21labs-AI21-Jamba2-3B": {},
    "allenai-Olmo-3-7B-Instruct": {},
    "baidu-ERNIE-4.5-21B-A3B-Base-PT": USER,
    "deepseek-ai-DeepSeek-V3.1": {},
    "deepseek-ai-DeepSeek-V3.2": USER,
    "google-gemma-2-2b-it": USER | FOLD | ALTERNATE,
    "google-gemma-4-E4B-it": USER,
    "ibm-granite-granite-4.0": {},
    "internlm-internlm2_5-7b-chat": {},
    "meta-llama-Llama-3.1-8B-Instruct": {},
    "meta-llama-Llama-3.2-3B-Instruct": CLOCK,
    "microsoft-Phi-3-mini-4k-instruct": USER,
    "mistralai-Mistral-7B-Instruct-v0.2": USER | ALTERNATE,
    "mistralai-Mistral-7B-Instruct-v0.3": USER | ALTERNATE,
    "mistralai-Mistral-Nemo-Instruct-2407": USER | ALTERNATE,
    "mistralai-Ministral-3-14B-Instruct-2512": USER,
    "moonshotai-Kimi-K2-Instruct": {},
    "nvidia-Llama-3.1-Nemotron-Nano-8B-v1": ALTERNATE,
    "openai-gpt-oss-120b": USER | CLOCK,
    "swiss-ai-Apertus-8B-Instruct-2509": USER,
    "tencent-Hunyuan-A13B-Instruct": USER,
    "tiiuae-Falcon-H1-0.5B-Instruct": {},
    "unsloth-gemma-3-270m-it": USER | ALTERNATE,
    "zai-org-GLM-4.5-Air": {},
}
"""What each needs before it takes a tool return as a tool turn, and the two other vehicles as user turns."""


class Outcome(NamedTuple):
    """One template and one vehicle under the default options: a delta for all, or a refusal."""

    name: str
    vehicle: str
    deltas: frozenset[tuple[int, ...]] = frozenset()
    check: str = ""
    line: str = ""
    mend: str = ""
    """Options as YAML, as the line names them."""
    mended: frozenset[tuple[int, ...]] = frozenset()
    """The deltas once they stand in the model's YAML."""
    naive: frozenset[str] = frozenset()
    """What is wrong with the split at the common prefix."""

    @property
    def options(self) -> dict[str, Any]:
        """Options to write into the model's YAML."""
        found: dict[str, Any] = yaml.safe_load(f"{{{self.mend}}}")
        return found


@pytest.fixture(scope="module")
def composed() -> Composed:
    """The default study, and a model without options whose tool return enters as a tool turn."""
    return config.load(["model=random-llama"])


def episodes(composed: Composed, model: ModelSpec) -> list[Episode]:
    return list(composed.spec.episodes(model))


def with_template(model: ModelSpec, name: str, options: dict[str, Any]) -> ModelSpec:
    roles = {**model.roles, **options.get("roles", {})}
    return model.model_copy(update={"name": name, "chat_template": template(name), **options, "roles": roles})


def proven(engine: Engine, episode: Episode) -> Split:
    """The episode's split, once every claim about it is checked against whole renders."""
    parts = split(engine, episode)
    clean = engine.render((*episode.committed, *episode.finalize))
    branched = engine.render((*episode.committed, *episode.branch, *episode.finalize))
    assert parts.committed_ids + parts.delta_ids == clean.ids
    assert parts.committed_ids + parts.branch_ids + parts.delta_ids == branched.ids
    assert min(map(len, (parts.committed_ids, parts.branch_ids, parts.delta_ids))) > 0
    assert all(turn.text.strip() in clean.text for turn in (*episode.committed, *episode.finalize))
    # Some write a tool's return as a JSON string, its quotes escaped.
    assert all(turn.text.strip() in branched.text.replace("\\", "") for turn in episode.branch)
    assert episode.finalize[0].text in engine.text(parts.delta_ids)
    assert not any(carrier in parts.delta_text for carrier in episode.carriers)
    assert parts.delta_identical
    assert parts.carrier_absent
    return parts


def assert_one_delta_per_vehicle(engine: Engine, found: Sequence[Episode]) -> None:
    """Attack and control, at every strength, are fed the same tokens after the same committed prefix."""
    by_vehicle: dict[str, set[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for episode in found:
        parts = proven(engine, episode)
        by_vehicle.setdefault(episode.axes["vehicle"], set()).add((parts.committed_ids, parts.delta_ids))
    assert {vehicle: len(cuts) for vehicle, cuts in by_vehicle.items()} == dict.fromkeys(by_vehicle, 1)
    assert len(by_vehicle) == 3


@pytest.mark.parametrize("name", PAPER)
def test_a_model_of_the_paper_takes_every_vehicle_as_its_file_declares(name: str, llama: Engine) -> None:
    composed = config.load([f"model={name}"])
    (model,) = composed.models
    assert isinstance(model.source, HubSource)
    shipped = template(chat_templates.name_for(model.source.repo))
    engine = engine_with(llama, model.model_copy(update={"chat_template": shipped}))
    assert_one_delta_per_vehicle(engine, episodes(composed, model))


@pytest.mark.parametrize("name", ["phi-3.5-mini", "phi-4", "glm-4-9b"])
def test_a_tool_role_that_a_model_of_the_paper_would_drop_is_refused(name: str, llama: Engine) -> None:
    composed = config.load([f"model={name}"])
    (model,) = composed.models
    assert isinstance(model.source, HubSource)
    shipped = template(chat_templates.name_for(model.source.repo))
    naive = model.model_copy(update={"chat_template": shipped, "roles": model.roles | {"tool_return": "tool"}})
    episode = next(e for e in episodes(composed, naive) if e.axes["vehicle"] == "tool_return")
    with pytest.raises(IsolationError, match=rf"message \d \(role tool\); set in {name}.yaml: roles: ") as fault:
        split(engine_with(llama, naive), episode)
    assert fault.value.check == "message_dropped"


@pytest.mark.parametrize("name", MAKERS)
def test_a_maker_s_template_splits_with_the_options_that_its_refusal_names(
    name: str, composed: Composed, llama: Engine
) -> None:
    (base,) = composed.models
    needed = MAKERS[name]
    model = with_template(base, name, needed)
    assert_one_delta_per_vehicle(engine_with(llama, model), episodes(composed, model))
    bare = with_template(base, name, {})
    outcome = outcome_of(engine_with(llama, bare), name, episodes(composed, bare), "tool_return")
    assert outcome.options == needed


CHECKS = ("message_dropped", "history_rewritten", "clock_in_template", "template_refused")
PAIR = (("attack", "imperative"), ("control", "neutral"))


def outcome_of(engine: Engine, name: str, found: Sequence[Episode], vehicle: str) -> Outcome:
    """What becomes of an attack and of a control of another strength."""
    chosen = [episode for episode in found if pair_of(episode, vehicle)]
    try:
        deltas = frozenset(proven(engine, episode).delta_ids for episode in chosen)
    except (IsolationError, TemplateError) as refusal:
        check = getattr(refusal, "check", "template_refused")
        mend = str(refusal).partition(f"; set in {name}.yaml: ")[2]
        return Outcome(name, vehicle, check=check, line=str(refusal), mend=mend)
    return Outcome(name, vehicle, deltas)


def pair_of(episode: Episode, vehicle: str) -> bool:
    """One attack and one control of another strength."""
    axes = episode.axes
    return axes["vehicle"] == vehicle and (axes["kind"], axes["strength"]) in PAIR


def naive(engine: Any, episode: Episode) -> frozenset[str]:
    """Faults of the split at the common prefix of render(prefix) and render(prefix + finalize), arm by arm."""
    try:
        (kept, delta), (kept_too, other) = (
            naive_split(engine, (*episode.committed, *branch), episode.finalize) for branch in ((), episode.branch)
        )
    except jinja2.TemplateError:
        return frozenset({"refuses a prefix"})
    return frozenset({"loses prefix"} if not (kept and kept_too) else ()) | (
        {"unequal deltas"} if delta != other else set()
    )


def naive_split(engine: Any, prefix: Sequence[Message], finalize: Sequence[Message]) -> tuple[bool, tuple[int, ...]]:
    """Whether the prefix's own render is a prefix of the whole, and the delta."""
    chat = engine._chat
    alone = chat._tokenizer.apply_chat_template(
        [{"role": turn.role, "content": turn.text} for turn in prefix],
        chat_template=chat._template,
        add_generation_prompt=False,
        return_dict=False,
    )
    whole = engine.render((*prefix, *finalize)).ids
    size = next(
        (at for at, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), min(len(alone), len(whole))
    )
    return size == len(alone), whole[size:]


@pytest.fixture(scope="module")
def sweep(composed: Composed, llama: Engine) -> list[Outcome]:
    """Every template, for a tool turn and for a user turn. An exception of any other kind fails here."""
    return list(_sweep(composed, llama))


def _sweep(composed: Composed, llama: Engine) -> Iterator[Outcome]:
    (base,) = composed.models

    for name in chat_templates.names():
        plain = with_template(base, name, {})
        engine, found = engine_with(llama, plain, remembers=True), episodes(composed, plain)
        for vehicle in ("tool_return", "user_turn"):
            outcome = outcome_of(engine, name, found, vehicle)
            if outcome.mend:
                model = with_template(base, name, outcome.options)
                again = outcome_of(engine_with(llama, model, remembers=True), name, episodes(composed, model), vehicle)
                outcome = outcome._replace(mended=again.deltas)
            elif not outcome.check:
                attack = next(episode for episode in found if pair_of(episode, vehicle))
                outcome = outcome._replace(naive=naive(engine, attack))
            yield outcome


def test_every_template_splits_or_is_refused_with_a_named_check_and_one_line(sweep: list[Outcome]) -> None:
    print_counts(sweep)
    assert len(sweep) == 2 * len(chat_templates.names()) > 1500
    for outcome in sweep:
        if not outcome.check:
            assert len(outcome.deltas) == 1, outcome.name
            continue
        assert outcome.check in CHECKS
        assert "\n" not in outcome.line
        assert len(outcome.line) < 700
        assert outcome.mend or f"give in {outcome.name}.yaml what the template asks for" in outcome.line


def print_counts(sweep: list[Outcome]) -> None:
    for vehicle in ("tool_return", "user_turn"):
        counts = Counter((one.check, ", ".join(one.options)) for one in sweep if one.vehicle == vehicle)
        for (check, options), count in sorted(counts.items(), key=lambda one: -one[1]):
            print(f"{vehicle:12} {check or 'splits':18} {count:4}  {check and f'mend: {options or None}'}")


def test_a_mend_that_is_named_works_when_it_is_written_down(sweep: list[Outcome]) -> None:
    mended = [outcome for outcome in sweep if outcome.mend]
    assert {key for outcome in mended for key in outcome.options} == {"roles", "system", "acknowledgement", "clock"}
    assert [outcome.name for outcome in mended if len(outcome.mended) != 1] == []


def test_nearly_every_template_can_be_made_to_split(sweep: list[Outcome]) -> None:
    """What is left is made for one question (guards, rerankers, speech) or takes no plain text as content."""
    hopeless = {outcome.name for outcome in sweep if outcome.check and not outcome.mend}
    assert len(hopeless) < 0.1 * len(chat_templates.names())
    assert not hopeless & set(MAKERS)


def test_the_naive_common_prefix_would_have_been_untrue_on_many_templates_that_split(sweep: list[Outcome]) -> None:
    split_ones = {outcome.name for outcome in sweep if not outcome.check}
    faulty = {fault: {one.name for one in sweep if fault in one.naive} for one in sweep for fault in one.naive}
    print(f"naive split of {len(split_ones)} templates:", {fault: len(found) for fault, found in faulty.items()})
    assert len(faulty["loses prefix"]) > 0.1 * len(split_ones)
    assert len(faulty["unequal deltas"]) > 0.01 * len(split_ones)


def test_a_template_that_prints_the_day_is_told_and_prints_the_one_it_is_given(
    llama: Engine, composed: Composed
) -> None:
    """home-assistant/core#133687: a clock in the prompt makes every prefix another one."""
    (base,) = composed.models
    names = [name for name in chat_templates.names() if "strftime_now" in template(name)]
    messages = (Message("user", "Hello there."),)
    dated = []
    for name in names:
        bare, stopped = (engine_with(llama, with_template(base, name, options)) for options in ({}, CLOCK))
        if naked(bare, messages, day=3) != naked(bare, messages, day=4):
            dated.append(name)
        assert bare.render(messages).is_dated == (name in dated), name
        renders = {on_day(day, lambda engine=stopped: engine.render(messages)) for day in (3, 4)}
        assert [render.is_dated for render in renders] == [False], name
    print(f"clock: {len(names)} templates ask for it, {len(dated)} print it unasked")
    assert len(dated) > 10


def naked(engine: Any, messages: Sequence[Message], day: int) -> Any:
    """The render without our stopped clock."""
    turns = [{"role": turn.role, "content": turn.text} for turn in messages]
    tokenizer, text = engine._chat._tokenizer, engine._chat._template
    return on_day(day, lambda: tokenizer.apply_chat_template(turns, chat_template=text, tokenize=False))


def on_day(day: int, render: Any) -> Any:
    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Day:
            return cls(2026, 2, day, tzinfo=tz)

    with mock.patch.object(chat_template_utils, "datetime", Day):
        return render()


def test_the_hash_in_the_row_tells_two_releases_of_one_template_apart(llama: Engine, composed: Composed) -> None:
    (base,) = composed.models
    pair = ("mistralai-Mistral-7B-Instruct-v0.2", "mistralai-Mistral-7B-Instruct-v0.3")
    engines = [engine_with(llama, with_template(base, name, {})) for name in pair]
    assert len({engine.facts.template_sha256 for engine in engines}) == 2


def test_thinking_is_turned_off_in_the_delta_that_every_arm_is_fed(llama: Engine, composed: Composed) -> None:
    """Qwen3#1826, Qwen3.8#131: empty thinking blocks came and went, so that no turn was a prefix of the next."""
    (base,) = composed.models
    model = with_template(base, "Qwen-Qwen3-0.6B@a55ee1", {"template_arguments": {"enable_thinking": False}})
    engine = engine_with(llama, model)
    found = episodes(composed, model)
    assert_one_delta_per_vehicle(engine, found)
    assert proven(engine, found[0]).delta_text.endswith("<think>\n\n</think>\n\n")


def test_what_a_template_asks_for_can_be_given_as_an_argument(llama: Engine, composed: Composed) -> None:
    """`tools` is never defined for nobody: this one counts them."""
    (base,) = composed.models
    name = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"
    bare = with_template(base, name, {})
    assert outcome_of(engine_with(llama, bare), name, episodes(composed, bare), "user_turn").check == "template_refused"
    model = with_template(base, name, {"template_arguments": {"tools": []}})
    assert_one_delta_per_vehicle(engine_with(llama, model), episodes(composed, model))
