"""The door to DuckDB: the views over a store, in memory for our answers and in a file for other people's tools."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from analysis.errors import AnalysisError, DamagedPart, nearest
from analysis.views import literal, names, needed, over, pairs, parts, pattern, views

PUBLISHED = "residue.duckdb"
STORAGE_VERSION = "v1.0.0"
"""A file that every 1.x shell opens; the views keep to SQL that 1.0 knows."""


class Warehouse:
    """The views over one store, read only: no SQL given to it can write a file or reach outside the store.

    Its database holds no views: a query gets those that it names as CTEs, because creating a view reads the footer of
    every part once more. Each query therefore sees what is committed at that moment.

    Args:
        beside: folders that it may read as well.
        without: parts of the store that it passes over.
    """

    def __init__(self, root: Path, beside: Iterable[Path] = (), without: Set[Path] = frozenset()) -> None:
        self.root, self.without = root, without
        # No extension is fetched, and nothing spills into the working directory.
        settings: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "temp_directory": str(Path(tempfile.gettempdir()) / f"residue-{uuid.uuid4().hex}"),
        }
        # A folder is checked as a query names it, so its glob is allowed beside its name.
        allowed = ", ".join(literal(name) for folder in (root, *beside) for name in (str(folder), pattern(folder)))
        with translated(root):
            self._connection = duckdb.connect(config=settings)
            for setting in (
                "TimeZone = 'UTC'",
                "parquet_metadata_cache = true",
                f"allowed_directories = [{allowed}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                self._connection.execute(f"set {setting}")

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Answer one query.

        Args:
            query: one `select` (or `from`, `with`, `describe`, `summarize`); `?` marks a parameter.

        Raises:
            AnalysisError: the query is wrong, is not one query, or meets a damaged part.
        """
        with translated(self.root):
            return self._connection.sql(self.whole(query), params=list(parameters)).to_arrow_table()

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Answer one query piece by piece, for an answer that is as long as the store.

        Raises:
            AnalysisError: as of `sql`.
        """
        with translated(self.root):
            # What a stream meets in a part is not DuckDB's own error any more.
            yield from pa.RecordBatchReader.from_stream(self._connection.sql(self.whole(query)))

    def hold_pair(self, a: str, b: str) -> None:
        """Work out two sides, once, for `of_pair`.

        Args:
            a: one side, a query that is `whole`; so is the other.

        Raises:
            AnalysisError: as of `sql`.
        """
        with translated(self.root):
            for name, query in (("a", a), ("b", b)):
                self._connection.execute(f"create or replace temp table {name} as\n{query}")

    def of_pair(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Answer one query over the sides `a` and `b` that are held, and over those of `sql/pairs/`.

        Raises:
            AnalysisError: as of `sql`.
        """
        known = {view.name: view.sql for view in needed(query, pairs())}
        with translated(self.root):
            return self._connection.sql(_with(known, query), params=list(parameters)).to_arrow_table()

    def whole(self, query: str) -> str:
        """A query and, as CTEs before it, the views over this store that it names.

        Raises:
            AnalysisError: it is not one query that reads.
        """
        if not _is_text(query):
            raise AnalysisError("a query is text, and this one holds bytes that are no UTF-8")
        with translated(self.root):
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise AnalysisError("only one query, and one that reads: select, from, with, describe or summarize")
            # DuckDB 2 lets a top-level `with` hold COPY and INSERT; inside a subquery it refuses them.
            asked = f"select * from (\n{_unended(statements[0].query)}\n)"
            return _with({view.name: over(view, self.root, self.without) for view in needed(query)}, asked)

    def close(self) -> None:
        """Let go of the store."""
        self._connection.close()

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(root: str | Path = "results", beside: Iterable[Path] = (), without: Set[Path] = frozenset()) -> Warehouse:
    """Open the views over the store at `root`; more as of `Warehouse`.

    Raises:
        AnalysisError: there is no store.
    """
    return Warehouse(existing(root), beside, without)


def publish(root: str | Path = "results") -> Path:
    """Write `<root>/residue.duckdb`, the views with absolute paths, beside and rename it into place.

    A shell that holds the old file open keeps reading it, and its next start finds the new one.

    Raises:
        AnalysisError: there is no store, or it cannot be written.
    """
    store = existing(root)
    final = store / PUBLISHED
    beside = store / f"{PUBLISHED}.{uuid.uuid4().hex}.tmp"
    try:
        # DuckDB reads a question mark in a path as the start of a query: it writes in a folder of plain name.
        with translated(store), tempfile.TemporaryDirectory(prefix="residue-") as plain:
            draft = Path(plain) / PUBLISHED
            with duckdb.connect(str(draft), config={"storage_compatibility_version": STORAGE_VERSION}) as connection:
                connection.execute("set parquet_metadata_cache = true")
                for view in views():
                    connection.execute(f"create view {view.name} as\n{over(view, store)}")
            beside.write_bytes(draft.read_bytes())
            # A log that a killed shell left belongs to the file being replaced, and would spoil the new one.
            Path(f"{final}.wal").unlink(missing_ok=True)
            beside.replace(final)
    finally:
        beside.unlink(missing_ok=True)
    return final


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` resolved.

    Raises:
        AnalysisError: nobody has that name, or no home is known.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as failure:
        raise AnalysisError(f"no folder {path}: {failure}") from failure


def existing(root: str | Path) -> Path:
    """The absolute path of the store at `root`.

    Raises:
        AnalysisError: there is none.
    """
    store = expanded(root).absolute()
    if "\\" in str(store):
        raise AnalysisError(f"DuckDB finds no file under a folder with a backslash in its name: rename {store}")
    if not all((store / folder).is_dir() for folder in ("trials", "plans", "runs", "missing")):
        raise AnalysisError(f"no results at {store}: run `python -m orchestrator` first, or name its store by --store")
    return store


def _is_text(said: str) -> bool:
    """Whether DuckDB can be told this: a lone surrogate stands for a byte that is no text."""
    return not any("\ud800" <= char <= "\udfff" for char in said)


def _with(known: Mapping[str, str], query: str) -> str:
    """A query after what it may name."""
    named = ",\n".join(f"{name} as (\n{text}\n)" for name, text in known.items())
    return f"with {named}\n{query}" if named else query


def _unended(query: str) -> str:
    """One statement without its semicolon and what follows it; token offsets count bytes."""
    text = query.encode()
    for offset, kind in duckdb.tokenize(query):
        if kind == duckdb.token_type.operator and text[offset : offset + 1] == b";":
            return text[:offset].decode()
    return query


@contextmanager
def translated(root: Path) -> Iterator[None]:
    """DuckDB's errors as one line of ours."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as failure:
        raise _explained(failure, root) from failure
    except OSError as failure:
        if failure.errno is None:
            raise _explained(failure, root) from failure
        raise AnalysisError(f"cannot write {root}: {failure.strerror or failure}") from failure


def _explained(failure: Exception, root: Path) -> AnalysisError:
    first = str(failure).splitlines()[0]
    if unknown := re.search(r"Table with name (\S+) does not exist", first):
        return AnalysisError(f"no view {unknown[1]!r}{nearest(unknown[1], names())}")
    if isinstance(failure, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
        hints = [line for line in str(failure).splitlines() if line.startswith(("Did you mean", "Candidate"))]
        return AnalysisError(" ".join([first, *hints]))
    if damaged := _damaged(root):
        return DamagedPart(damaged)
    return AnalysisError(first)


def _damaged(root: Path) -> Path | None:
    """The first part that cannot be read whole; looked for only after a failure, because that reads everything."""
    return next(unreadable(parts(root)), None)


def unreadable(paths: Iterable[Path]) -> Iterator[Path]:
    """Those of the parts that DuckDB cannot read whole."""
    with duckdb.connect() as connection:
        for path in paths:
            part = connection.read_parquet
            try:
                part(pattern(path), hive_partitioning=False).aggregate("bit_xor(hash(columns(*)))").fetchall()
            except duckdb.Error:
                yield path
