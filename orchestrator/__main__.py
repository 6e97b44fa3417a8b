"""`python -m orchestrator`: the door to `orchestrator.command`, where Ctrl-C during the imports leaves no traceback."""

from __future__ import annotations

import sys

try:
    from orchestrator.command import main
except KeyboardInterrupt:
    sys.exit(130)

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
