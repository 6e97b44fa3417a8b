"""The page as a file: what it shows of a store, that it is whole, and that nothing in a store can act in it."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

import analysis
from analysis.__main__ import main
from analysis.report import gather, palette
from tests.analysis.report.conftest import HOSTILE, html_of, written
from tests.analysis.report.reader import asker, parse, untrue

CSS = Path(gather.__file__).with_name("page.css").read_text(encoding="utf-8")


def test_hostile_words_change_no_tag_and_no_attribute(make_store, tmp_path):
    texts = {
        name: written(make_store(name), word, tmp_path / f"{name}.html")
        for name, word in (("tame", "word"), ("wild", HOSTILE))
    }
    tame, wild = (
        [(at.tag, sorted(at.attributes)) for at in parse(text).walk() if at.tag != "wbr"] for text in texts.values()
    )
    assert wild == tame
    page = parse(texts["wild"])
    assert "<script>alert(1)</script>" in page.text
    assert texts["wild"].count("</style>") == 1
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert {char for char in texts["wild"] if unicodedata.category(char) in hidden} == {"\n"}
    assert untrue(page, asker(tmp_path / "wild")) == []


@pytest.mark.parametrize("store", ["full", "builder", "one_flip"])
def test_the_page_asks_for_nothing_and_runs_nothing(store, page, request):
    seen = page(request.getfixturevalue(store))
    assert not {at.tag for at in seen.walk()} & {"script", "img", "link", "iframe", "object", "embed", "svg", "form"}
    names = {name for at in seen.walk() for name in at.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset", "action", "srcdoc")]
    assert all(at.attributes["href"].startswith("#") for at in seen.find("a"))
    assert "url(" not in CSS
    assert "@import" not in CSS
    styles = {at.attributes["style"] for at in seen.walk() if "style" in at.attributes}
    assert all(re.fullmatch(r"background:#[0-9A-F]{6}|flex-grow:\d+", style) for style in styles)
    (policy,) = seen.find("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_every_link_and_every_column_heading_leads_somewhere(full_html):
    seen = parse(full_html)
    ids = [at.attributes["id"] for at in seen.walk() if "id" in at.attributes]
    assert len(ids) == len(set(ids))
    assert {at.attributes["href"] for at in seen.find("a")} == {f"#{name}" for name in ids}
    assert all("scope" in at.attributes for at in seen.find("th"))
    assert all(at.attributes.get("aria-label") for at in seen.find("div", role="region"))
    for table in seen.find("table"):
        (caption,) = table.find("caption")
        assert caption.text.strip()


def test_an_empty_store_is_a_page_too(builder, page):
    seen = page(builder)
    assert "Nothing is planned in this store yet." in seen.text
    assert seen.find("details", **{"class": "worked"}) == []
    assert [at.text for at in seen.find("span", data_count="proposition_1")] == ["0"]


def test_sampled_trials_are_named_where_the_greedy_ones_are_counted(builder, page):
    builder.store(*builder.episode(), *builder.episode(temperature=0.7, decode="sampled"))
    assert "Sampled trials, 4 done of 4, are in no table of the census" in page(builder).text


def test_a_store_of_sampled_trials_alone_is_not_said_to_be_empty(builder, page):
    builder.store(*builder.episode(temperature=0.7, decode="sampled"))
    seen = page(builder).text
    assert "No greedy trial is planned in this store yet." in seen
    assert "Sampled trials, 4 done of 4" in seen


def test_coverage_comes_first_and_shows_what_is_missing_and_why(full, full_html):
    seen = parse(full_html)
    assert next(at.attributes["id"] for at in seen.find("section")) == "coverage"
    (section,) = seen.find("section", id="coverage")
    assert "1 no weights: d-4 needs 8 GB" in section.text
    assert "1 over budget: 3 s" in section.text
    rows = full.row("select sum(missing) as missing, sum(planned) as planned from coverage_by_grid")
    (table,) = seen.find("figure", data_view="coverage_by_grid")
    (row,) = [at for at in table.find("tr") if "data-key" in at.attributes]
    assert row.find(data_columns="missing")[0].text == str(rows["missing"]) == "2"
    assert row.find(data_columns="planned")[0].text == str(rows["planned"])


def test_a_model_that_is_never_judged_is_listed_apart_and_is_not_resistant(full_html):
    seen = parse(full_html)
    (listed,) = [
        at for at in seen.find("figure", data_view="census") if "no judged trial" in at.text and "c-3" in at.text
    ]
    assert "c-3" in listed.text
    assert [at for at in seen.find("figure", data_view="census_by_situation") if "c-3" in at.text] == []


def test_a_level_that_only_unjudged_models_have_is_no_column_of_the_heat_maps(builder, page):
    lost = {"model": "c-3", "vehicle": "long_document", "effect_status": "refused"}
    builder.store(*builder.episode(flips=True), builder.trial(**lost), builder.trial(arm="cold", **lost))
    assert [at for at in page(builder).find("table", **{"class": "heat"}) if "long_" in at.text] == []


def test_kinds_of_cache_are_shown_where_there_is_more_than_one(full_html):
    (section,) = parse(full_html).find("section", id="families")
    (row,) = [at for at in section.find("tr") if at.key == {"cache_family": "hybrid", "model": "c-3"}]
    assert "1 unsupported" in row.text


def test_the_window_and_why_an_arm_is_unsupported_are_shown(builder, page):
    said = {"model": "w", "cache_family": "hybrid", "window_tokens": 8, "committed_ids": [1] * 6, "branch_ids": [2] * 4}
    why = "truncate: cannot undo a window"
    lost = {"status": "unsupported", "layer1": "unsupported", "error": why.removeprefix("truncate: ")}
    rows = [builder.trial(**said), builder.trial(arm="truncate", **said, **lost)]
    builder.store(builder.trial(cache_family="full"), *rows)
    (table,) = page(builder).find("figure", data_view="families")
    (row,) = [at for at in table.find("tr") if at.key.get("model") == "w"]
    cells = {at.attributes["data-columns"]: at.text for at in row.walk() if "data-columns" in at.attributes}
    assert (cells["window_tokens"], cells["num_window_crossed"], cells["num_window_emptied"]) == ("8", "1", "0")
    assert cells["why_unsupported"] == why


def test_one_kind_of_cache_needs_no_section(one_flip, page):
    assert page(one_flip).find("section", id="families") == []


@pytest.mark.parametrize(
    ("weights", "shown"),
    [
        ("blake2b:a7a7", "blake2b:a7a7"),
        (
            '{"architecture":"glm","config":{"head_dim":16},"kind":"random","seed":3,"weight_scale":4.0}',
            "random glm, seed 3",
        ),
    ],
)
def test_a_model_is_named_with_its_weights(builder, told_row, page, weights, shown):
    identity = json.dumps({"attention": "sdpa", "dtype": "float32", "weights": weights}, separators=(",", ":"))
    builder.store(*(told_row(row, model_identity=identity) for row in builder.episode()))
    (table,) = page(builder).find("figure", data_view="models")
    assert [at.text for at in table.find(data_columns="weights")] == [shown]
    assert [at.text for at in table.find(data_columns="dtype")] == ["float32"]


def test_a_breach_of_proposition_1_is_counted_and_listed(builder, told_row, page):
    rows = [told_row(row) for row in builder.episode()]
    rows[1] |= {"reply_ids": [66, 67], "reply": "something else"}
    builder.store(*rows)
    (section,) = page(builder).find("section", id="propositions")
    assert section.find(data_count="proposition_1")[0].text == "1"
    assert "something else" in section.find("figure", data_view="proposition_1")[0].text


def test_proposition_2_lists_a_competent_row_with_a_broken_cache_and_the_right_effect(builder, told_row, page):
    rows = builder.episode()
    rows[0]["layer1"] = "violated"
    builder.store(*map(told_row, rows))
    (figure,) = page(builder).find("figure", data_view="proposition_2")
    assert "stale" in figure.text


def test_proposition_2_asks_no_one_pass_arm_and_its_count_is_its_listing(ask_full):
    (row,) = ask_full("propositions")
    assert row["num_broken_effect_kept"] == len(ask_full("proposition_2")) > 0
    assert {listed["arm"] for listed in ask_full("proposition_2")} == {"stale"}


def test_a_listing_says_how_much_it_leaves_out(full, page, monkeypatch):
    monkeypatch.setattr(gather, "MAX_LISTED", 3)
    (figure,) = page(full).find("figure", data_view="proposition_2")
    (note,) = [at for at in figure.walk() if "data-hidden" in at.attributes]
    assert len([at for at in figure.find("tr") if "data-key" in at.attributes]) == 3
    assert int(note.attributes["data-hidden"]) == len(full.rows("from proposition_2")) - 3
    assert note.text.startswith(note.attributes["data-hidden"])


def test_a_store_that_grows_while_it_is_read_is_said(one_flip, page, monkeypatch):
    assert "A run was recording" not in page(one_flip).text

    checks = gather._checks

    def meanwhile(warehouse):
        one_flip.record(one_flip.trial(version=2))
        return checks(warehouse)

    monkeypatch.setattr(gather, "_checks", meanwhile)
    assert "A run was recording" in page(one_flip).text


def test_the_same_store_gives_the_same_bytes(full, full_html, tmp_path):
    assert html_of(full, tmp_path / "again.html") == full_html


@pytest.mark.parametrize("arms", [(), ("stale", "cold"), ("zz", "stale", "aa", "m")])
def test_an_arm_has_one_colour_and_no_arm_has_another_s(arms):
    found = palette.colours(arms)
    assert set(arms) <= set(found)
    assert len(set(found.values())) == len(found)
    assert all(found[arm] == palette.OKABE_ITO[arm] for arm in palette.OKABE_ITO)


def test_arms_beyond_the_palette_are_grey_alike():
    names = [f"arm-{at:02}" for at in range(12)]
    found = palette.colours(names)
    assert [found[name] for name in names[:8]] == list(palette.SPARE)
    assert {found[name] for name in names[8:]} == {palette.PLAIN}
    assert len({*palette.OKABE_ITO.values(), *palette.SPARE, palette.PLAIN}) == len(palette.OKABE_ITO) + 9


def test_every_text_of_the_style_sheet_reaches_contrast_aa():
    named = dict(re.findall(r"(--\w+): (#\w{6});", CSS))
    shades = re.findall(r"\.shade-\d+ \{ background: (#\w{6}); \}", CSS)
    assert len(shades) == 11
    papers = ["#ffffff", named["--wash"], "#e9e9e6", *shades]
    assert min(contrast(named["--ink"], paper) for paper in papers) >= 4.5
    assert min(contrast(ink, paper) for ink in (named["--soft"], "#004f80") for paper in papers[:2]) >= 4.5
    assert contrast("#767676", "#ffffff") > 4.5 > contrast("#777777", "#ffffff")


def contrast(one, other):
    """The contrast ratio of two colours, as WCAG defines it."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_command_writes_into_the_store_or_where_it_is_told(one_flip, tmp_path, capsys):
    for words, path in (
        ([], one_flip.root / "report.html"),
        (["--out", str(tmp_path / "o.html")], tmp_path / "o.html"),
    ):
        assert main(["--store", str(one_flip.root), "report", *words]) == 0
        assert capsys.readouterr().out.strip() == str(path)
        assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("place", ["nowhere/report.html", "results", "results/plans/part-empty.parquet/report.html"])
def test_a_place_that_cannot_be_written_is_one_line_and_leaves_nothing(one_flip, tmp_path, capsys, place):
    before = sorted(tmp_path.rglob("*"))
    assert main(["--store", str(one_flip.root), "report", "--out", str(tmp_path / place)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"error: cannot write {tmp_path / place}")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_page_before_is_replaced_whole(one_flip, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with path.open() as reader:
        html_of(one_flip, path)
        assert reader.read() == "old"
    assert "old" not in path.read_text(encoding="utf-8")[:10]


def test_the_results_are_not_touched(one_flip, tmp_path):
    before = {path: path.read_bytes() for path in one_flip.root.rglob("*") if path.is_file()}
    with analysis.connect(one_flip.root):
        html_of(one_flip, tmp_path / "r.html")
    assert {path: path.read_bytes() for path in one_flip.root.rglob("*") if path.is_file()} == before
