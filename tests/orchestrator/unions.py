"""Small grids of a user's own, to be united."""

from __future__ import annotations

from pathlib import Path

from orchestrator import config
from orchestrator.config import Composed
from orchestrator.grid import Grid, identify, lay_out

GRIDS = {
    "narrow": "study: {arms: [stale, cold], levels: {strength: [neutral], kind: [attack]}}",
    "wide": "study: {arms: [fresh, cold], levels: {strength: [neutral, imperative], kind: [attack]}}",
    "other_words": "study: {arms: [stale], texts: {guard: Beware.}, levels: {guard: [true]}}",
    "sampled": "study: {arms: [stale, cold], decode: {temperature: [0.0, 0.3, 0.7], num_draws: 20}}",
    "few_draws": "study: {arms: [stale, cold], decode: {temperature: 0.3, num_draws: 3}}",
    "lean": "exclude: [{where: kind == 'control', why: controls are elsewhere}]",
    "both": "parts: [narrow, wide]",
}


def write(folder: Path, name: str, body: str) -> None:
    """A grid file of that name."""
    (folder / "grid").mkdir(exist_ok=True)
    (folder / "grid" / f"{name}.yaml").write_text(f"# @package _global_\nname: {name}\n{body}\n")


def write_all(folder: Path) -> Path:
    """Every grid above, as files of a configuration folder."""
    for name, body in GRIDS.items():
        write(folder, name, f"models: [scripted]\n{body}" if not body.startswith("parts") else body)
    return folder


def laid_out(composed: Composed) -> Grid:
    """Its cells, with models that are nothing but their names."""
    return lay_out(composed, {model.name: identify(model, model.name, None) for model in composed.models})


def grid(folder: Path, *overrides: str) -> Grid:
    """The grid of a command line."""
    return laid_out(config.load(overrides, folder))
