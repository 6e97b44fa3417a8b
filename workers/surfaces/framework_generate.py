"""The framework's `generate` with a kept cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from workers.surfaces.base import Script
from workers.surfaces.session_app import AppSession

if TYPE_CHECKING:
    from workers.engine import Engine
    from workers.engine.base import Path


class FrameworkGenerate:
    """`generate(all_ids, past_key_values=cache)`, turn by turn. The abort removes the message."""

    name: ClassVar[str] = "framework_generate"
    version: ClassVar[int] = 1
    path: ClassVar[Path] = "generate"

    def open(self, engine: Engine, script: Script) -> AppSession:
        """The naive loop is the session app's, over an engine that is called in the framework's way."""
        return AppSession(engine, script)


SURFACE = FrameworkGenerate()
