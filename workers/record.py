"""What a trial's row says beside its study's measures: its tokens, its reply, or why it is not an observation."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from workers.errors import IsolationError, TemplateError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.block import Row
    from workers.engine import Decoded
    from workers.split import Split

DONE: Row = {"status": "done", "failed_checks": "", "delta_identical": True, "parent_intact": True}
_NO_VERDICT = (
    "reply", "reply_ids", "stop", "decode_tokens", "batch", "again", "decoded_with", "state_digest",
    "committed_ids", "branch_ids", "delta_ids", "carrier_absent", "carrier_tokens",
)  # fmt: skip
"""What stays of a row whose computation is not believed."""


def invalid(failed: Mapping[str, str]) -> Row:
    """A trial with broken checks: their names and reasons, and no verdict of any kind."""
    return {
        "status": "invalid",
        "failed_checks": ",".join(failed),
        "error": "; ".join(f"{check}: {reason}" for check, reason in failed.items()),
        "delta_identical": "delta_differs" not in failed,
        "parent_intact": "parent_changed" not in failed,
    }


def distrusted(row: Row, failed: Mapping[str, str]) -> Row:
    """What is left of a row once its block is known to be computed wrongly; what it failed by itself stands first."""
    found = invalid(failed)
    if row.get("status") == "invalid":
        joined = {"failed_checks": f"{row['failed_checks']},{found['failed_checks']}"}
        return row | joined | {"error": f"{row['error']}; {found['error']}"}
    return {name: row[name] for name in _NO_VERDICT if name in row} | found


def failed(status: str, error: Exception, check: str = "") -> Row:
    """A trial that an exception ended; only a bug shows its traceback."""
    line = " ".join(str(error).split()) or type(error).__name__
    is_bug = status == "error"
    return {
        "status": status,
        "failed_checks": check,
        "error": f"{type(error).__name__}: {line}" if is_bug else line,
        "traceback": "".join(traceback.format_exception(error)) if is_bug else None,
        **({"failure": "bug"} if is_bug else {}),
    }


def refused(fault: Exception) -> Row:
    """A row of an episode none of whose arms can be tried."""
    if isinstance(fault, IsolationError):
        return failed("invalid", fault, fault.check)
    if isinstance(fault, TemplateError):
        return failed("invalid", fault, "template_refused")
    if isinstance(fault, Unsupported):
        return failed("unsupported", fault) | {"layer1": "unsupported"}
    return failed("error", fault)


def of_reply(decoded: Decoded) -> Row:
    """The reply, raw."""
    return {
        "reply": decoded.text,
        "reply_ids": list(decoded.ids),
        "stop": decoded.stop,
        "top2_margin": decoded.top2_margin,
        "decode_tokens": len(decoded.ids),
    }


def of_split(parts: Split) -> Row:
    """The episode's tokens."""
    return {
        "committed_ids": list(parts.committed_ids),
        "branch_ids": list(parts.branch_ids),
        "delta_ids": list(parts.delta_ids),
        "carrier_absent": parts.carrier_absent,
        "delta_identical": parts.delta_identical,
        "carrier_tokens": parts.carrier_tokens,
    }
