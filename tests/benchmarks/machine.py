# SPDX-License-Identifier: Apache-2.0
"""The machine of this run, against the one that the budgets were written for.

The absolute budgets, in events a second, were set together with the rates of bare parts on their author's machine. This
module measures the same parts. A ratio well below 1 means that this machine is slower, so that an absolute budget is
harder to meet than intended. No part of the project is measured, so there is no budget. One thread, the clock's time,
medians.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.benchmarks.figures import Figure
from tests.benchmarks.places import Bench
from watcher_sync.testing.nova.cloud import CloudSimulator

_ROWS = 20_000
_COLUMNS = 15
_BATCH = 500
_ENVELOPE = 3_900
"""Bytes."""
_TURNS = 5

_UPSERTS = 100_000.0
_LOADS = 20_000.0
_DECODES = 104_000.0
"""A second, on the machine of the budgets."""


class _Payload(msgspec.Struct):
    uuid: str
    state: str | None = None
    host: str | None = None
    updated_at: str | None = None


class _Data(msgspec.Struct):
    data: _Payload = msgspec.field(name="nova_object.data")


class _Message(msgspec.Struct):
    event_type: str
    payload: _Data


class _Envelope(msgspec.Struct):
    message: str = msgspec.field(name="oslo.message")


def machine(bench: Bench) -> list[Figure]:
    """The bare database, and the decoding of an envelope with and without a type."""
    body = _envelope()
    number = iter(range(_TURNS))
    parts: list[tuple[str, str, float, Callable[[], float]]] = [
        (
            f"bare sqlite3 upsert of {_COLUMNS} columns, {_BATCH} to a commit",
            "rows/s",
            _UPSERTS,
            lambda: _upserts(bench.folder / f"machine-{next(number)}.sqlite"),
        ),
        ("a Nova envelope by json.loads, twice", "envelopes/s", _LOADS, lambda: _decodes(_loads, body, 2_000)),
        (
            "a Nova envelope into a typed partial struct",
            "envelopes/s",
            _DECODES,
            lambda: _decodes(_typed, body, 20_000),
        ),
    ]
    return [_figure(what, unit, reference, measure) for what, unit, reference, measure in parts]


def _figure(what: str, unit: str, reference: float, measure: Callable[[], float]) -> Figure:
    samples = [measure() for _ in range(_TURNS)]
    measured = statistics.median(samples)
    return Figure(
        benchmark="machine",
        what=f"This machine: {what}",
        measured=measured,
        unit=unit,
        reference=reference,
        reference_unit=unit,
        ratio=measured / reference,
        samples=samples,
        note="against the machine that the budgets were written for",
    )


def _upserts(path: Path) -> float:
    names = [f"c{number}" for number in range(_COLUMNS - 2)]
    columns = ["id", "seq", *names]
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    marks = ", ".join("?" * _COLUMNS)
    sql = f"INSERT INTO t ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {sets}"
    values = tuple(f"value of {name}" for name in names)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"CREATE TABLE t (id TEXT PRIMARY KEY, seq INTEGER, {', '.join(f'{n} TEXT' for n in names)})")
    rows = [(f"{number % (_ROWS // 2):036d}", number, *values) for number in range(_ROWS)]
    began = time.perf_counter()
    for first in range(0, _ROWS, _BATCH):
        connection.execute("BEGIN")
        connection.executemany(sql, rows[first : first + _BATCH])
        connection.execute("COMMIT")
    rate = _ROWS / (time.perf_counter() - began)
    connection.close()
    return rate


def _decodes(decode: Callable[[bytes], object], body: bytes, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        decode(body)
    return times / (time.perf_counter() - began)


_outer, _inner = msgspec.json.Decoder(_Envelope).decode, msgspec.json.Decoder(_Message).decode


def _typed(body: bytes) -> object:
    return _inner(_outer(body).message)


def _loads(body: bytes) -> object:
    return json.loads(json.loads(body)["oslo.message"])


def _envelope() -> bytes:
    """An event of an instance, filled up to the size of a real one."""
    events = CloudSimulator(seed=1, hosts=3, instances=10).history(200)
    message = next(event for event in events if str(event["event_type"]).startswith("instance."))
    message = json.loads(json.dumps(message))
    missing = _ENVELOPE - len(_wrapped(message))
    message["payload"]["nova_object.data"]["filling"] = ["x" * 20] * max(0, missing // 26)
    return _wrapped(message)


def _wrapped(message: object) -> bytes:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()
