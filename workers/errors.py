"""Every error Residue raises on purpose.

ResidueError                 the user can mend it: printed as one line, never a traceback
├── ConfigError              a key, a value or a text is wrong; nothing has run
│   └── NotInstalled         an optional package is not there; what needs it cannot be planned
├── ModelError               a model cannot be found, read or loaded
├── TemplateError            a chat template cannot render the episode faithfully
├── SessionError             a session is unknown, or not where the call needs it to be
└── StoreError               results cannot be written or read
Unsupported                  this cache family cannot do what the arm asks; a status, not a failure
IsolationError               a proof of isolation failed; the trial is `invalid`
OutOfMemory                  the device is too small or too full; says nothing about the trial
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ResidueError(Exception):
    """What, where and the mend, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ConfigError(ResidueError):
    """The configuration asks for something that does not exist or makes no sense."""


class NotInstalled(ConfigError):
    """What is asked for needs an optional package that is not there; the rest of a union of grids does not."""


class ModelError(ResidueError):
    """A model cannot be found, read or loaded."""


class TemplateError(ResidueError):
    """A chat template drops, rewrites or refuses a message of the episode."""


class SessionError(ResidueError):
    """An application asks a session for what it cannot do now."""


class StoreError(ResidueError):
    """The store cannot be written or read."""


class Unsupported(Exception):
    """This cache family cannot do this arm; the message says which capability is missing."""


class OutOfMemory(Exception):
    """The device ran out of memory; the trial may succeed with more of it."""


class IsolationError(Exception):
    """A named isolation check failed (DESIGN §4.5).

    Attributes:
        check: the check's name, as it stands in the row's `failed_checks`.
        message: what was found, without the check's name.
    """

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check, self.message = check, message


_FULL = (
    "allocate memory",
    "bad_alloc",
    "could not create a primitive",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""What torch's allocators, oneDNN and cuBLAS say of a full host or device, in errors without a class of their own."""


def raise_if_full(error: Exception) -> None:
    """Tell a full device, or host, from what is wrong with a trial; to be asked wherever any error becomes a row.

    Raises:
        OutOfMemory: that is what the error says, whoever raised it and in whatever class.
    """
    if isinstance(error, OutOfMemory):
        raise error
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if is_named or any(words in str(error) for words in _FULL):
        raise OutOfMemory(str(error)) from error


def nearest(name: object, known: Iterable[object]) -> str:
    """Words that help after a misspelling: `, did you mean 'x'?`, or the list of what exists."""
    names = sorted({str(option) for option in known})
    close = difflib.get_close_matches(str(name), names, n=2, cutoff=0.6)
    if close:
        return f", did you mean {' or '.join(map(repr, close))}?"
    return f"; there is {', '.join(names)}" if names else ""
