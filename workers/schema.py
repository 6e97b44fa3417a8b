"""Every column of a trial, written down once: name, type, whether it is sealed, and what it means.

One schema a study: the core columns, then the columns the study declares. A part carries the schema version and each
column's `sealed` and `doc` as Parquet field metadata, so a reader needs no code of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

SCHEMA_VERSION = 1

TEXT, BOOL, INT, FLOAT = pa.string(), pa.bool_(), pa.int64(), pa.float64()
IDS = pa.list_(pa.int32())
TIME = pa.timestamp("us", tz="UTC")


class Column(NamedTuple):
    """One column. `is_sealed`: equal in every honest repetition of the trial."""

    name: str
    type: pa.DataType
    is_sealed: bool
    doc: str


CORE: tuple[Column, ...] = (
    Column("cell_id", TEXT, True, "what was asked: hash of `identity`"),
    Column("draw", INT, True, "number of the draw, from 0; a greedy cell has one"),
    Column("episode_id", TEXT, True, "hash of the model and the episode; shared by the arms"),
    Column("study", TEXT, True, "experiment family"),
    Column("model", TEXT, True, "stem of the model's YAML"),
    Column("arm", TEXT, True, "treatment of the cache before the decision"),
    Column("status", TEXT, True, "done, invalid, unsupported or error"),
    Column("failed_checks", TEXT, True, "names of the isolation checks that failed, comma-separated; empty when none"),
    Column("error", TEXT, True, "why the trial is not done, one line"),
    Column("traceback", TEXT, False, "the traceback behind `error`, where there is one"),
    Column("failure", TEXT, False, "class of the failure behind an error: bug, lost, preempted, memory or hung"),
    Column("attempts", INT, False, "how often the trial was begun, this time included; null in older parts"),
    Column("rung", TEXT, False, "what it took to find memory: empty, fewer at a time, one at a time, a larger slot"),
    Column("temperature", FLOAT, True, "of the decoding; 0 is greedy"),
    Column("reply", TEXT, True, "the decoded reply, raw"),
    Column("reply_ids", IDS, True, "the decoded reply's token ids"),
    Column("stop", TEXT, True, "eos, or budget when max_new_tokens ran out"),
    Column("committed_ids", IDS, True, "P0: token ids every arm keeps"),
    Column("branch_ids", IDS, True, "token ids only the branch adds"),
    Column("delta_ids", IDS, True, "token ids fed at the decision"),
    Column("carrier_tokens", INT, True, "tokens of the carrier in the branch; null where they cannot be told"),
    Column(
        "overwritten_tokens",
        INT,
        True,
        "positions at which the arm's state and P0 with the branch hold different ids; null where lengths differ",
    ),
    Column("cache_length", INT, True, "tokens in the cache when the delta is fed; null for one-pass arms"),
    Column("carrier_absent", BOOL, True, "no carrier in the delta, as string or as ids"),
    Column("delta_identical", BOOL, True, "the delta fed is the delta of every other arm, by ids"),
    Column("parent_intact", BOOL, True, "the shared caches' digests are equal before and after the arm"),
    Column(
        "layer1",
        TEXT,
        True,
        "cache against a separate pass over P0: intact, violated, unsupported or reference",
    ),
    Column("layer1_max_diff", FLOAT, False, "largest over tensors of max|a-b|/max|b|; null where lengths differ"),
    Column("layer1_tolerance", FLOAT, False, "the distance up to which layer1 is intact on this model"),
    Column(
        "top2_margin",
        FLOAT,
        False,
        "smallest gap between best and second logit over the reply's steps, noise included where it is sampled",
    ),
    Column("prefill_tokens", INT, True, "tokens prefilled to reach the decision state"),
    Column("recomputed_tokens", INT, True, "of these, tokens prefilled again by the restore itself"),
    Column("decode_tokens", INT, True, "tokens decoded"),
    Column(
        "prefill_ms",
        FLOAT,
        False,
        "time of this arm's own prefill, without the shared session; of a restore that prefills, inside restore_ms; "
        "null where a shelf had it",
    ),
    Column(
        "restore_ms",
        FLOAT,
        False,
        "time of the restore alone: re-prefill, copy, or a crop and the copy it works on; null where a shelf had it",
    ),
    Column(
        "decode_ms",
        FLOAT,
        False,
        "time of delta, scoring and decode, of draws together their mean; null where a batch or another row did it",
    ),
    Column("batch", TEXT, False, "how the reply was decoded: alone, or rows x slots of the batch"),
    Column("again", TEXT, False, "why it was decoded a second time, alone, and that reply taken: margin; else empty"),
    Column("decoded_with", TEXT, False, "cell and draw of the row whose equal state was decoded; null for its own"),
    Column("state_digest", TEXT, False, "hash of the state decided on, before what waits to be fed is encoded"),
    Column("identity", TEXT, True, "the parts of cell_id, JSON"),
    Column("model_identity", TEXT, True, "what the model's digest in `identity` was made of, JSON"),
    Column("episode", TEXT, True, "messages, axes and facts of the episode, JSON"),
    Column("template_sha256", TEXT, True, "hash of the chat template in use"),
    Column("cache_family", TEXT, True, "kind of cache the model keeps"),
    Column("window_tokens", INT, True, "tokens the narrowest sliding or chunked layer attends to; null without one"),
    Column("isolation", TEXT, False, "how the row was computed: class (shared inside a class) or strict (alone)"),
    Column("kernels", TEXT, False, "linear and attention kernels that computed the row"),
    Column("versions", TEXT, False, "exact versions of the libraries that computed the row"),
    Column("device", TEXT, False, "device that computed the row"),
    Column("host", TEXT, False, "host that computed the row"),
    Column("run_id", TEXT, False, "the run that recorded the row"),
    Column("generation", INT, False, "0, raised by each retry of an already recorded trial"),
    Column("committed_at", TIME, False, "when the part was written"),
)


def arrow_schema(study: str, columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a study's parts: core columns, then the study's own."""
    fields = [
        pa.field(
            column.name,
            column.type,
            metadata={"sealed": "true" if column.is_sealed else "false", "doc": column.doc},
        )
        for column in (*CORE, *columns)
    ]
    return pa.schema(fields, metadata={"schema_version": str(SCHEMA_VERSION), "study": study})


PLAN: tuple[Column, ...] = (
    Column("plan_id", TEXT, True, "hash of the plan's contents"),
    Column("grid", TEXT, True, "name of the grid"),
    Column("cell_id", TEXT, True, "planned cell"),
    Column("draw", INT, True, "planned draw"),
    Column("episode_id", TEXT, True, "episode of the cell"),
    Column("study", TEXT, True, "experiment family"),
    Column("model", TEXT, True, "stem of the model's YAML"),
    Column("arm", TEXT, True, "treatment of the cache"),
    Column("temperature", FLOAT, True, "of the decoding; 0 is greedy"),
    Column("parts", TEXT, True, "parts of the grid that ask for it, comma-separated; empty where the grid has none"),
    Column("is_selected", BOOL, True, "false where where=, limit= or only= left the cell out of this run"),
    Column("blocked", TEXT, True, "why the cell cannot run here; null where it can"),
)
"""Followed by the study's axis columns, as in its trials."""

RUN: tuple[Column, ...] = (
    Column("run_id", TEXT, True, "one call of the command"),
    Column("sequence", INT, True, "order of the runs of this store, from 1"),
    Column("grid", TEXT, True, "name of the grid"),
    Column("plan_id", TEXT, True, "the plan it worked on"),
    Column("started_at", TIME, False, "when it started"),
    Column("command", TEXT, False, "the command line"),
    Column("config", TEXT, False, "the composed configuration, JSON, secrets left out"),
    Column("versions", TEXT, False, "of Residue, Python and the libraries"),
    Column("commit", TEXT, False, "git commit of the checkout, with + when it had changes"),
    Column("host", TEXT, False, "where the driver ran"),
)

MISSING: tuple[Column, ...] = (
    Column("run_id", TEXT, True, "the run that could not record the trial"),
    Column("sequence", INT, True, "order of that run"),
    Column("cell_id", TEXT, True, "planned cell"),
    Column("draw", INT, True, "planned draw"),
    Column("reason", TEXT, True, "why it is missing"),
)
