"""A listener that tells wandb. It can lose what it has to tell, but never delay or fail a run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

from orchestrator.secrets import masked, without_secrets
from orchestrator.terminal import plain
from orchestrator.tracking.feed import Feed, Message
from orchestrator.tracking.tally import PROBLEMS, Tally

if TYPE_CHECKING:
    from orchestrator.config_schema import TrackingConfig
    from orchestrator.listener import Start
    from workers.block import Receipt

P = ParamSpec("P")
Census = tuple[Sequence[str], Iterable[Sequence[Any]]]


def make_tracker(
    config: TrackingConfig,
    run_config: Mapping[str, Any] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Tracker:
    """The run's tracker; with `kind: off`, WANDB_DISABLED or WANDB_MODE=disabled one that does nothing.

    Args:
        run_config: what the run was asked, as plain data; secrets are left out of what is told.
        warn: takes the one line that says what was lost. Called from the driver's thread only.
    """
    return Tracker(config, run_config or {}, warn or _to_stderr)


def _never_fails(method: Callable[Concatenate[Tracker, P], None]) -> Callable[Concatenate[Tracker, P], None]:
    @wraps(method)
    def guarded(self: Tracker, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as failure:
            self._warn_once(f"{type(failure).__name__}: {failure}")

    return guarded


class Tracker:
    """One wandb run of a grid run. See `make_tracker`.

    Args:
        interval_s: metrics are told at most this often; they are running totals, so nothing is lost between.
        limit: messages that may wait for wandb before more are dropped.
    """

    def __init__(
        self,
        config: TrackingConfig,
        run_config: Mapping[str, Any],
        warn: Callable[[str], None],
        *,
        interval_s: float = 1.0,
        limit: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._run_config, self._warn = config, run_config, warn
        self._interval_s, self._limit = interval_s, limit
        self._tally = Tally(clock)
        self._feed: Feed | None = None
        self._told_at: float | None = None
        self._num_told = 0
        self._has_warned = self._is_closed = False

    @property
    def folder(self) -> Path | None:
        """The folder of the wandb run; known once wandb has opened it, and surely after `close`."""
        folder = self._feed.reply.get("folder") if self._feed else None
        return Path(folder) if folder else None

    @property
    def url(self) -> str | None:
        """Where the run is seen, if it is online."""
        return self._feed.reply.get("url") if self._feed else None

    @_never_fails
    def started(self, start: Start) -> None:
        """Open the wandb run."""
        self._tally.start(start)
        if self._config.kind == "wandb" and not _is_silenced() and self._feed is None:
            self._feed = Feed(self._hello(start), self._limit)

    @_never_fails
    def slot_ready(self, model: str, device: str, load_s: float) -> None:  # noqa: ARG002  # the listener is told more
        """Count the slot."""
        self._tally.slot_ready(model, load_s)

    @_never_fails
    def block_done(self, receipt: Receipt) -> None:
        """Tell the running totals, unless they were told just now."""
        now = self._tally.clock()
        if self._tally.add(receipt) and (self._told_at is None or now - self._told_at >= self._interval_s):
            self._told_at = now
            self._offer(self._metrics())

    @_never_fails
    def problem(self, model: str, message: str) -> None:
        """Nothing: problems are in the store and on the terminal, and their texts are not for others."""

    @_never_fails
    def finished(self, missing: dict[str, str]) -> None:
        """Nothing: the caller has the census to add, in `close`."""

    @_never_fails
    def close(self, census: Census | None = None, summary: Mapping[str, Any] | None = None, exit_code: int = 0) -> None:
        """Tell the end and wait for wandb, at most `timeout_s`.

        Args:
            census: columns and rows of the final census.
            summary: final values, from SQL; where they bear a metric's name they replace it.
        """
        if self._is_closed or self._feed is None:
            return
        self._is_closed = True
        last = [self._metrics()]
        if census is not None:
            columns, rows = census
            last.append({"kind": "census", "columns": list(columns), "rows": [list(row) for row in rows]})
        if summary is not None:
            last.append({"kind": "summary", "values": dict(summary)})
        last.append({"kind": "end", "exit_code": exit_code})
        self._feed.close(last, self._config.timeout_s)
        self._account(self._feed, with_census=census is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(exit_code=0 if kind is None else 1)

    def _offer(self, message: Message) -> None:
        if self._feed is None:
            return
        self._num_told += 1
        self._feed.offer(message)
        if self._feed.failure:
            self._warn_once(f"this run is not tracked ({self._feed.failure})")

    def _account(self, feed: Feed, *, with_census: bool) -> None:
        """One line on what was lost."""
        dropped = f"{feed.num_dropped} of {self._num_told} updates" if feed.num_dropped else ""
        rest = "everything" if self.folder is None else "the last updates" + " and the census" * with_census
        kinds = ", ".join(feed.reply.get("lost", {}))
        what = " and ".join(filter(None, [dropped, rest if feed.failure else kinds]))
        why = feed.failure or next(iter(feed.reply.get("lost", {}).values()), "it was too slow")
        if what:
            self._warn_once(f"lost {what} ({why})")

    def _warn_once(self, message: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            line = " ".join(message.split())[:500]
            with suppress(Exception):
                self._warn(f"wandb: {line}; the store holds the results all the same")

    def _hello(self, start: Start) -> Message:
        config = self._config
        asked = dict(self._run_config) | {"run": asdict(start)}
        return {
            "kind": "hello",
            "run_id": start.run_id,
            "grid": start.grid,
            "folder": str(Path("results" if "://" in start.store else start.store).absolute()),
            "project": config.project,
            "entity": config.entity,
            "mode": config.mode,
            "config": without_secrets(asked),
            "timeout_s": config.timeout_s,
            "parent": os.getpid(),
        }

    def _metrics(self) -> Message:
        tally = self._tally
        values: dict[str, float | None] = {
            "minutes": tally.elapsed_s / 60,
            "trials/done": tally.num_done,
            "trials/per_minute": tally.per_minute,
            "slots": tally.num_slots,
        }
        values |= {f"trials/{status}": tally.statuses[status] for status in PROBLEMS}
        values |= {f"flips/{arm}": num for arm, num in tally.flips.items()}
        values |= {f"done/{model}": tally.recorded(model) for model in tally.models}
        return {"kind": "metrics", "values": {name: num for name, num in values.items() if num is not None}}


def _is_silenced() -> bool:
    said = os.environ.get("WANDB_DISABLED", "").strip().lower()
    return said not in ("", "0", "false", "no") or os.environ.get("WANDB_MODE", "").lower() == "disabled"


def _to_stderr(message: str) -> None:
    print(plain(masked(message)), file=sys.stderr)
