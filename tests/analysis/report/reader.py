"""Reads the page as a browser would, and asks the views again for everything that it shows."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from analysis.__main__ import main
from analysis.terminal import neutral

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr", "base", "source", "embed"}
TRACED = ("data-columns", "data-count", "data-hidden", "data-shown", "data-turn")
WORDS = r"Layer [12]|Proposition [12]|proposition_[12]"
"""Names that hold a digit and count nothing."""


@dataclass(eq=False)
class Element:
    """One element; `parts` are texts and elements in their order."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    parts: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def walk(self) -> Iterator[Element]:
        yield self
        for part in self.parts:
            if isinstance(part, Element):
                yield from part.walk()

    def above(self) -> Iterator[Element]:
        """This element and those around it, the innermost first."""
        at: Element | None = self
        while at is not None:
            yield at
            at = at.parent

    def find(self, tag: str = "", **said: str) -> list[Element]:
        wanted = {name.replace("_", "-"): value for name, value in said.items()}
        return [
            at
            for at in self.walk()
            if tag in ("", at.tag) and all(at.attributes.get(name) == value for name, value in wanted.items())
        ]

    @property
    def view(self) -> str:
        return next(at.attributes["data-view"] for at in self.above() if "data-view" in at.attributes)

    @property
    def key(self) -> dict[str, Any]:
        """What finds its row: the keys of everything around it, the innermost last."""
        keys = [json.loads(at.attributes["data-key"]) for at in self.above() if "data-key" in at.attributes]
        return {name: value for one in reversed(keys) for name, value in one.items()}


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("document", {})

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), f"an attribute twice: {tag} {names}"
        element = Element(tag, {name: value or "" for name, value in attributes}, self.at)
        self.at.parts.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.parts.append(data)


def parse(html: str) -> Element:
    """The page as a tree; elements that do not nest are an error."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root
    return reader.root


def query(store: Path, view: str) -> list[dict[str, Any]]:
    """What `python -m analysis query VIEW --format json` prints."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        assert main(["--store", str(store), "query", view, "--format", "json"]) == 0
    out.seek(0)
    rows: list[dict[str, Any]] = json.loads(out.read())
    return rows


Ask = Callable[[str], list[dict[str, Any]]]


def asker(store: Path) -> Ask:
    """`query` that asks each view once."""
    asked: dict[str, list[dict[str, Any]]] = {}
    return lambda view: asked[view] if view in asked else asked.setdefault(view, query(store, view))


def untrue(page: Element, ask: Ask) -> list[str]:
    """Everything that the page shows and a query does not give."""
    cells = [at for at in page.walk() if "data-columns" in at.attributes]
    counts = [at for at in page.walk() if "data-count" in at.attributes]
    faults = [fault for cell in cells if (fault := _fault(cell, ask(cell.view)))]
    faults += [
        f"{at.attributes['data-count']}: {at.text}"
        for at in counts
        if at.text != str(len(ask(at.attributes["data-count"])))
    ]
    return faults


def untraced(page: Element) -> list[str]:
    """Texts with a number that no query is named for."""
    return [
        part.strip()
        for at in page.find("body")[0].walk()
        for part in at.parts
        if isinstance(part, str)
        and re.search(r"\d", re.sub(WORDS, "", part))
        and not any(name in over.attributes for over in at.above() for name in TRACED)
        and not any(over.tag in ("thead", "code") for over in at.above())
    ]


def _fault(cell: Element, rows: list[dict[str, Any]]) -> str:
    key, names = cell.key, cell.attributes["data-columns"].split()
    found = [row for row in rows if all(row[name] == value for name, value in key.items() if name in row)]
    is_one = cell.tag == "td" or any(at.tag == "td" for at in cell.above())
    if not found or (is_one and len(found) > 1):
        return f"{cell.view} {key}: {len(found)} rows"
    wrong = [row for row in found if not _says(cell.text.strip(), names, [row[name] for name in names])]
    return f"{cell.view} {key} {names}: {cell.text!r}" if wrong else ""


def _says(text: str, names: list[str], values: list[Any]) -> bool:
    if len(names) == 2:
        return text == (f"{values[0]}/{values[1]}" if values[1] else "–")
    if len(names) > 2:
        words = [name.removeprefix("num_").removeprefix("layer1_") for name in names]
        said = [f"{value} {word}" for value, word in zip(values, words, strict=True) if value]
        return text == (", ".join(said) or "–")
    (name,), (value,) = names, values
    if value is None:
        return text == "–"
    if isinstance(value, bool):
        return text == ("yes" if value else "no")
    if isinstance(value, float):
        return math.isclose(float(text), value, rel_tol=5e-3)
    if isinstance(value, list):
        return [int(word) for word in text.split()] == value
    if name.endswith("_at"):
        return text == f"{value[:19]} UTC"
    return text in (neutral(str(value)), "\n".join(neutral(line) for line in str(value).split("\n")).strip())
