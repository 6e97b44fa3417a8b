"""A misspelt configuration is one line that names the nearest right word; nothing unknown gets through."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator import config
from workers.errors import ConfigError

SENTENCE = 'Hi, {target}: "a=b" \N{BABY CHICK} {}\nsecond line, too'


def load_and_expand(overrides: tuple[str, ...], config_dir: Path | None) -> None:
    composed = config.load(overrides, config_dir)
    list(composed.spec.episodes(composed.models[0]))


def refusal(*overrides: str, config_dir: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_and_expand(overrides, config_dir)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("+gird=smoke", "'grid'"),
        ("gird=smoke", "'grid'"),
        ("+modle=x", "'model'"),
        ("+modle=plan", "'mode'"),
        ("model=smolm2-135m", "'smollm2-135m'"),
        ("+grid=cesus", "'census'"),
        ("executor=inlin", "'inline'"),
        ("study=rolback", "'rollback'"),
        ("study.arms=[stale,stael]", "'stale'"),
        ("study.levels.vehicle=[tool_retrun]", "'tool_return'"),
        ("study.levels.vehicl=[tool_return]", "'vehicle'"),
        ("study.txets.task=x", "'texts'"),
        ("+study.txets=1", "'texts'"),
        ("+executor.adress=auto", "'address'"),
        ("study.texts.task={artefact} please", "'artifact'"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_right_one(override: str, nearest: str) -> None:
    assert nearest in refusal(override)


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("study.levels.vehicle=[]", "study.levels.vehicle is empty"),
        ("study.arms=[]", "study.arms is empty"),
        ("study.arms=[stale,stale]", "twice"),
        ("study.levels.kind=[attack,attack]", "twice"),
        ("model=", "models is empty"),
        ("model=[scripted,scripted]", "twice"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("mode=pln", "mode"),
        ("block_episodes=-1", "block_episodes"),
        ("store.root=", "store.root"),
        ("name=../../etc", "name"),
        ("model=../../etc", "models"),
        ("study.decode.num_draws=3", "num_draws"),
        ("x=1,2", "unknown key 'x'"),
        ("just-a-word", "key=value"),
        ("-m", "the grid is the sweep"),
        ("hydra.run.dir=x", "no effect"),
        ("study.texts.task=${nowhere}", "nowhere"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_place(override: str, where: str) -> None:
    assert where in refusal(override)


def test_hydra_launcher_and_sweeper_overrides_are_refused_not_ignored() -> None:
    """hydra#2946: a launcher override that is ignored runs something else than was asked."""
    assert "no effect" in refusal("hydra/launcher=joblib")


@pytest.mark.parametrize("spelling", ["grid=smoke", "+grid=smoke"])
def test_a_grid_is_chosen_with_and_without_the_plus(spelling: str) -> None:
    assert config.load([spelling]).run.name == "smoke"


def test_models_are_named_alone_or_as_a_list_and_beat_the_grid() -> None:
    composed = config.load(["+grid=census", "model=[scripted,random-llama]"])
    assert [model.name for model in composed.models] == ["scripted", "random-llama"]
    assert config.load(["model=scripted"]).run.models == ("scripted",)


def test_a_sentence_with_comma_quote_equals_emoji_and_newline_arrives_whole() -> None:
    """hydra#573: a comma in a value turns one run into a sweep of two."""
    composed = config.load([f"study.texts.carriers.neutral={SENTENCE}"])
    episode = next(composed.spec.episodes(composed.models[0]))
    said = SENTENCE.replace("{target}", "red-canary")
    assert said in episode.branch[0].text
    assert said in episode.carriers


def test_a_value_is_put_into_a_text_once() -> None:
    composed = config.load(['study.texts.effects.send_message.unauthorised="{carrier}"'])
    episode = next(composed.spec.episodes(composed.models[0]))
    assert "{carrier}" in episode.branch[0].text


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    shutil.copy(config.CONF / "model" / "scripted.yaml", tmp_path / "model" / "mine-1.5.yaml")
    return tmp_path


def test_a_model_is_one_yaml_in_a_folder_of_the_users(own: Path) -> None:
    assert config.load(["model=mine-1.5"], own).models[0].name == "mine-1.5"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("reply_format", "reply_fromat"), "did you mean 'reply_format'"),
        (lambda text: text.replace("cpus", "cpu"), "did you mean 'cpus'"),
        (lambda text: text.replace("kind: scripted", "kind: skripted"), "skripted"),
        (lambda text: text.replace("send_line", "send_lien"), "did you mean 'send_line'"),
        (lambda text: text.replace("user_turn:", "user_trun:"), "no role for the vehicle 'user_turn'"),
        (lambda text: text.replace("cpus: 1", "cpus: 0.00001"), "device.cpus"),
        (lambda text: text.replace("cpus: 1", "cpus: .inf"), "device.cpus"),
        (lambda text: text.replace("cpus: 1", "cpus: 1.23456"), "at most four decimals"),
        (lambda text: text.replace("gpus: 0", "gpus: 0.00001"), "at most four decimals"),
        (lambda text: text.replace("kind: scripted", "kind: scripted\n  decode_ms: .inf"), "decode_ms"),
        (lambda _: "- a list", "not a mapping"),
        (lambda _: "", "source is missing"),
        (lambda _: "a: [1", "not YAML"),
        (
            lambda text: text.replace("{kind", "kind").replace("scripted", "hub\n  repo: a/b\n  revision: main"),
            "revision",
        ),
    ],
)
def test_a_broken_model_file_is_one_line(own: Path, change: object, said: str) -> None:
    path = own / "model" / "mine-1.5.yaml"
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    assert said in refusal("model=mine-1.5", "study.levels.vehicle=[user_turn]", config_dir=own)


def test_a_missing_config_folder_is_said(tmp_path: Path) -> None:
    assert "no such folder" in refusal(config_dir=tmp_path / "nowhere")


def test_every_grid_of_the_repository_composes() -> None:
    for path in (config.CONF / "grid").glob("*.yaml"):
        assert config.load([f"+grid={path.stem}"]).run.name == path.stem


def test_every_model_of_the_repository_can_take_every_vehicle() -> None:
    names = [path.stem for path in (config.CONF / "model").glob("*.yaml")]
    composed = config.load([f"model={','.join(names)}"])
    assert len(composed.models) == len(names)
    for model in composed.models:
        assert len(list(composed.spec.episodes(model))) == 18
