"""Loading without vendor chatter and without parsing the same GGUF again and again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partialmethod
from importlib.util import find_spec
from unittest import mock

from tqdm.auto import tqdm
from transformers.utils import logging


def hush() -> None:
    """Keep transformers to errors, for the whole process: its notes on missing kernels come with later passes."""
    if "TRANSFORMERS_VERBOSITY" not in os.environ:
        logging.set_verbosity_error()
    logging.disable_progress_bar()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings and no progress bars, not even the GGUF reader's own, which no setting reaches."""
    silent = mock.patch.object(tqdm, "__init__", partialmethod(tqdm.__init__, disable=True))
    with silent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def parsed_once() -> Iterator[None]:
    """transformers parses a GGUF for the config, the tokenizer and the weights, and builds one name table a module."""
    with ExitStack() as stack:
        if find_spec("gguf") is not None:
            import gguf

            for name in ("GGUFReader", "get_tensor_name_map"):
                stack.enter_context(mock.patch.object(gguf, name, cache(getattr(gguf, name))))
        yield
