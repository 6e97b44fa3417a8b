"""A misspelt configuration is one line that names the nearest right word; nothing unknown gets through."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from orchestrator import config
from orchestrator.config_sources import CONF
from workers.errors import ConfigError

EFFECT = "study.texts.effects.send_message"
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
        ("study.gates.rbac.may={sent_message:[x]}", "'send_message'"),
        ("+study.txets=1", "'texts'"),
        ("+executor.adress=auto", "'address'"),
        (f"{EFFECT}.task={{artefact}} please", "'artifact'"),
        ("executor=null", "inline, ray"),
        ("tracking=false", "off, wandb"),
        ("study=null", "rollback"),
        ("+grid=null", "unknown grid 'null'"),
        ("model=scripted.yaml", "model=scripted"),
        ("model=scripted.yml", "model=scripted"),
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
        ("store.root=s3://bucket/results", "store.root: should be a folder; mount the storage"),
        ("store.root=file:///tmp/results", "store.root: should be a folder; mount the storage"),
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
        ("study.decode.num_draws=0", "num_draws"),
        ("study.decode.temperature=[0.3,0.3]", "temperature"),
        ("x=1,2", "unknown key 'x'"),
        ("just-a-word", "key=value"),
        ("-m", "the grid is the sweep"),
        ("hydra.run.dir=x", "no effect"),
        (f"{EFFECT}.task=${{nowhere}}", f"{EFFECT}.task: Interpolation key 'nowhere'"),
        ("where=${", "stands for another key"),
        ("name=???", "name is ???: give it a value"),
        ("only=", "only= is empty"),
        ("only=[]", "only= is empty"),
        ("=5", "key=value"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_place(override: str, where: str) -> None:
    assert where in refusal(override)


@pytest.mark.parametrize(
    ("override", "mend"),
    [
        ("study.levels.vehicle=user_turn", "study.levels.vehicle=[user_turn]"),
        ("study.levels.strength=neutral, imperative", "study.levels.strength=[neutral,imperative]"),
        ("study.arms=stale", "study.arms=[stale]"),
        ("study.seed=1", ""),
        ("study.decode.temperature=warm", ""),
    ],
)
def test_one_value_in_the_place_of_a_list_is_told_how_to_write_it(override: str, mend: str) -> None:
    """hydra#573, from the other side: values with commas between them are no list either."""
    said = refusal(override)
    assert said.endswith(f"should be a list: {mend}") if mend else "should be a list" not in said


@pytest.mark.parametrize("name", ["éé", "inf", "nan", "1", "true", "1e5", "null"])
def test_what_looks_like_a_number_is_still_a_models_name(name: str) -> None:
    assert f"unknown model {name!r}" in refusal(f"model={name}")


@pytest.mark.parametrize("written", ["12345678", "1e5", "007", "[007,'1e5']"])
def test_a_cell_id_is_text_whatever_it_looks_like(written: str) -> None:
    assert ",".join(config.load(["model=scripted", f"only={written}"]).run.only) == written.strip("[]").replace("'", "")


def test_a_key_that_the_chosen_file_lacks_names_the_keys_it_has() -> None:
    assert "unknown key 'slots' in executor; there is kind" in refusal("executor=inline", "executor.slots=2")


def test_two_grids_are_refused() -> None:
    assert "one grid at a time, not smoke and census" in refusal("+grid=smoke", "grid=census")


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
    composed = config.load([f"{EFFECT}.carriers.neutral={SENTENCE}"])
    episode = next(composed.spec.episodes(composed.models[0]))
    said = SENTENCE.replace("{target}", "red-canary")
    assert said in episode.branch[0].text
    assert said in episode.carriers


def test_a_value_is_put_into_a_text_once() -> None:
    composed = config.load([f'{EFFECT}.unauthorised="{{carrier}}"'])
    episode = next(composed.spec.episodes(composed.models[0]))
    assert "{carrier}" in episode.branch[0].text


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    shutil.copy(CONF / "model" / "scripted.yaml", tmp_path / "model" / "mine-1.5.yaml")
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
        (lambda _: "5", "mine-1.5.yaml cannot be read as a mapping"),
        (
            lambda text: text.replace("send_line", "${"),
            "mine-1.5.yaml: no viable alternative at input '${'; ${…} stands for another key",
        ),
        (lambda text: text.replace("send_line", "${a.b}"), "model mine-1.5: reply_format: Interpolation key"),
        (lambda text: text.replace("send_line", "???"), "model mine-1.5: reply_format is ???"),
        (lambda text: text + "name: other\n", "its file says name: other"),
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


def test_a_model_file_that_is_not_utf8_is_named(own: Path) -> None:
    path = own / "model" / "mine-1.5.yaml"
    path.write_bytes(path.read_bytes() + b"# d\xe9j\xe0 vu\n")
    assert "mine-1.5.yaml is not UTF-8" in refusal("model=mine-1.5", config_dir=own)


def test_a_model_file_may_repeat_its_own_name(own: Path) -> None:
    path = own / "model" / "mine-1.5.yaml"
    path.write_text(path.read_text() + "name: mine-1.5\n")
    assert config.load(["model=mine-1.5"], own).models[0].name == "mine-1.5"


def test_a_users_file_hides_the_built_in_of_the_same_name(own: Path) -> None:
    for group, name, text in [
        (
            "model",
            "scripted",
            (CONF / "model" / "scripted.yaml").read_text().replace("tool_return: tool", "tool_return: user"),
        ),
        ("grid", "smoke", "# @package _global_\nname: theirs\nmodels: [scripted]\n"),
        ("tracking", "off", 'kind: "off"\nproject: theirs\n'),
    ]:
        (own / group).mkdir(exist_ok=True)
        (own / group / f"{name}.yaml").write_text(text)
    composed = config.load(["grid=smoke", "tracking=off", "executor=inline"], own)
    assert composed.models[0].roles["tool_return"] == "user"
    assert (composed.run.name, composed.run.tracking.project) == ("theirs", "theirs")
    assert config.load(["grid=smoke"]).models[0].roles["tool_return"] == "tool"


def test_a_users_own_config_yaml_is_the_one_that_is_composed(own: Path) -> None:
    text = (CONF / "config.yaml").read_text().replace("name: default ", "name: theirs ")
    (own / "config.yaml").write_text(text)
    assert config.load(["model=[mine-1.5,scripted]"], own).run.name == "theirs"
    assert "'executor'" in refusal("exector.kind=ray", config_dir=own)


def test_a_grid_file_without_its_header_is_told_so(own: Path) -> None:
    (own / "grid").mkdir()
    (own / "grid" / "mine.yaml").write_text("name: mine\nmodels: [scripted]\n")
    assert "# @package _global_" in refusal("grid=mine", config_dir=own)


def test_a_missing_config_folder_is_said(tmp_path: Path) -> None:
    assert "no such folder" in refusal(config_dir=tmp_path / "nowhere")


def test_every_grid_of_the_repository_composes() -> None:
    for path in (CONF / "grid").glob("*.yaml"):
        assert config.load([f"+grid={path.stem}"]).run.name == path.stem


def test_every_model_of_the_repository_can_take_every_vehicle() -> None:
    """llama_index#11731: roles that must alternate stopped a run in its middle."""
    names = [path.stem for path in (CONF / "model").glob("*.yaml")]
    composed = config.load([f"model={','.join(names)}"])
    assert len(composed.models) == len(names)
    for model in composed.models:
        assert len(list(composed.spec.episodes(model))) == 18


def test_what_workers_are_sent_is_plain_and_resolved() -> None:
    """hydra#2772, hydra#861: resolvers that a worker's process lacked."""
    composed = config.load(["model=scripted"])
    sent = pickle.dumps((composed.models, [list(composed.spec.episodes(model)) for model in composed.models]))
    assert b"omegaconf" not in sent
    assert b"${" not in sent
