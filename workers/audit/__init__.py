"""The audit for other people's code: a session class in, a named finding out (docs/audit.md).

from workers.audit import Audited, audit

result = audit(MySession, engine, episodes)
print(result)
"""

from __future__ import annotations

from workers.audit.judge import audit
from workers.audit.result import Audit, Finding, Verdict
from workers.audit.session import Audited

__all__ = ["Audit", "Audited", "Finding", "Verdict", "audit"]
