"""A real browser lays the page out at 1280 and at 390 px: nothing is too wide, cut off or on top of another."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1280, 390)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The page that measures must see into the page measured, and both are files.
    "--allow-file-access-from-files",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=20000",
    "--dump-dom",
)
MEASURE = """
const seen = {};
async function measure(name, frame, width) {
  const page = frame.contentDocument, faults = [];
  for (const part of page.querySelectorAll('details')) part.open = true;
  if (page.documentElement.scrollWidth > width) faults.push('the page scrolls sideways');
  for (const part of page.body.querySelectorAll('*')) {
    const box = part.getBoundingClientRect(), style = frame.contentWindow.getComputedStyle(part);
    const scroller = part.closest('.scroll');
    if (!box.width) continue;
    if (!scroller && (box.right > width + .5 || box.left < -.5)) faults.push('wide: ' + part.className);
    if (part !== scroller && style.display !== 'inline' && part.scrollWidth > part.clientWidth + 1)
      faults.push('cut: ' + part.className);
  }
  const boxes = [], texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  for (let text; text = texts.nextNode();) {
    const range = page.createRange();
    range.selectNodeContents(text);
    if (!text.data.trim()) continue;
    for (const box of range.getClientRects()) if (box.width > 1) boxes.push([box, text.data.trim().slice(0, 40)]);
  }
  boxes.sort((one, other) => one[0].top - other[0].top);
  boxes.forEach(([one, said], at) => {
    for (const [other, also] of boxes.slice(at + 1)) {
      if (other.top >= one.bottom) break;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (across > 2 && Math.min(one.bottom, other.bottom) - other.top > 4) faults.push(`overlap: ${said} / ${also}`);
    }
  });
  seen[name] = {faults: faults.slice(0, 9), texts: boxes.length};
}
onload = async () => {
  for (const frame of document.querySelectorAll('iframe')) await measure(frame.id, frame, Number(frame.width));
  out.textContent = JSON.stringify(seen);
};
"""
PLANTED = {
    "wide": '<p class="planted" style="width:2000px;max-width:none">x</p>',
    "cut": '<p class="planted" style="width:40px;overflow:hidden;white-space:nowrap">no room for all this text</p>',
    "overlap": '<p>one</p><p style="margin-top:-2rem">another</p>',
}

pytestmark = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="needs chromium")]


@pytest.fixture(scope="module")
def seen(full_html, hostile_html, tmp_path_factory) -> dict[str, Any]:
    """What one browser measured on the page at each width, and on the page with each fault planted."""
    folder = tmp_path_factory.mktemp("browser")
    stores = {"full": full_html, "hostile": hostile_html}
    pages = {f"{store}-{width}": (text, width) for store, text in stores.items() for width in WIDTHS}
    pages |= {name: (full_html.replace("</main>", f"{fault}</main>"), 1280) for name, fault in PLANTED.items()}
    frames = ""
    for name, (text, width) in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
        frames += f'<iframe id="{name}" src="{name}.html" width="{width}" height="900"></iframe>\n'
    (folder / "all.html").write_text(f'{frames}<pre id="out"></pre><script>{MEASURE}</script>', encoding="utf-8")
    return run(folder / "all.html", folder / "profile")


def run(page: Path, profile: Path) -> dict[str, Any]:
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    said = re.search(r'<pre id="out">(.+?)</pre>', done.stdout, re.DOTALL)
    assert said, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(html.unescape(said[1]))
    return answer


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("store", ["full", "hostile"])
def test_nothing_is_wider_than_the_window_cut_off_or_overlapping(seen, store, width):
    found = seen[f"{store}-{width}"]
    assert found["faults"] == []
    assert found["texts"] > 300


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(seen, fault):
    assert [said for said in seen[fault]["faults"] if said.startswith(fault)]
