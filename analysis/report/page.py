"""The door to jinja2: the page's templates, with everything that comes from data escaped and made visible."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis.report.palette import colours
from analysis.report.tables import key, shown
from analysis.terminal import neutral, share

if TYPE_CHECKING:
    from analysis.report.gather import Page

HERE = Path(__file__).resolve().parent


def render(page: Page) -> str:
    """The page as HTML that asks nothing of the network and runs nothing."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": shown, "said": said, "wrapping": wrapping, "key": key, "share": share}
    # The style sheet is ours and holds nothing from data.
    style = Markup((HERE / "page.css").read_text(encoding="utf-8"))
    return environment.get_template("page.html").render(
        page=page, style=style, colours=colours(shown(arm) for arm in page.arms)
    )


def said(text: str | None) -> str:
    """A text of several lines, its control, invisible and bidirectional characters written out."""
    return "–" if text is None else "\n".join(neutral(line) for line in text.split("\n"))


def wrapping(word: str) -> Markup:
    """A name that may also break after an underscore."""
    return Markup("_<wbr>").join(map(escape, word.split("_")))
