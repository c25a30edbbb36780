# SPDX-License-Identifier: Apache-2.0
"""The references of the replay: the database alone, and two programs that one would write by hand.

:func:`bare_upsert` is the ceiling. It writes rows that are ready, with the standard library's ``sqlite3``.
:func:`shortest_pipeline` decodes, too: ``json.loads``, a dictionary of functions, ``executemany`` of rows and journal.
It has no order, no guard and no deltas.
:func:`naive_pipeline` is the floor. It uses ``json.loads``, a dictionary of functions, an ORM session, and a commit
per event. All use the pragmas that our own engine sets. One thread.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

_BATCH = 500
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=32000")


def bare_upsert(source: pathlib.Path, target: pathlib.Path, *, rows: int) -> float:
    """Upsert as many rows as asked for of the instances in ``source``, over and over; rows a second.

    The table, its indexes and its columns are those of the source. The first round inserts, the rest update,
    each with a newer seq, so that none is a no-op.
    """
    with sqlite3.connect(source) as origin:
        schema = origin.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'instances' AND sql IS NOT NULL ORDER BY type DESC"
        ).fetchall()
        columns = [row[1] for row in origin.execute("PRAGMA table_info(instances)")]
        kept = origin.execute("SELECT * FROM instances").fetchall()
    seq = columns.index("seq")
    batches: list[list[tuple[Any, ...]]] = []
    done = 0
    while done < rows:
        turn = done // len(kept)
        part = kept[done % len(kept) :][: min(_BATCH, rows - done)]
        batches.append([(*row[:seq], row[seq] + turn * 10_000_000, *row[seq + 1 :]) for row in part])
        done += len(part)
    names = ", ".join(columns)
    sets = ", ".join(f"{c} = excluded.{c}" for c in columns if c != "id")
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT INTO instances ({names}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {sets}"
    sql += " WHERE instances.seq < excluded.seq"
    connection = sqlite3.connect(target, isolation_level=None)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    for (statement,) in schema:
        connection.execute(statement)
    began = time.perf_counter()
    for batch in batches:
        connection.execute("BEGIN")
        connection.executemany(sql, batch)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    connection.close()
    return rows / seconds


class Base(orm.DeclarativeBase):
    """The naive pipeline's tables."""


class Server(Base):
    """An instance as the naive pipeline keeps it."""

    __tablename__ = "servers"
    id: orm.Mapped[str] = orm.mapped_column(sa.String(36), primary_key=True)
    name: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    host: orm.Mapped[str | None] = orm.mapped_column(sa.String(255), index=True)
    node: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    project_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(255), index=True)
    user_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    state: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    task_state: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    power_state: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    locked: orm.Mapped[bool | None]
    vcpus: orm.Mapped[int | None]
    memory_mb: orm.Mapped[int | None]
    disk_gb: orm.Mapped[int | None]
    meta: orm.Mapped[Any] = orm.mapped_column(sa.JSON)
    updated_at: orm.Mapped[str | None] = orm.mapped_column(sa.String(32))


class Node(Base):
    """A compute service as the naive pipeline keeps it."""

    __tablename__ = "nodes"
    host: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    disabled: orm.Mapped[bool | None]
    zone: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))


def _server(session: orm.Session, data: dict[str, Any]) -> None:
    server = session.get(Server, data["uuid"])
    if server is None:
        server = Server(id=data["uuid"])
        session.add(server)
    flavor = data["flavor"]["nova_object.data"]
    server.name, server.host, server.node = data["display_name"], data["host"], data["node"]
    server.project_id, server.user_id = data["tenant_id"], data["user_id"]
    server.state, server.task_state, server.power_state = data["state"], data["task_state"], data["power_state"]
    server.locked, server.meta, server.updated_at = data.get("locked"), data["metadata"], data["updated_at"]
    server.vcpus, server.memory_mb, server.disk_gb = flavor["vcpus"], flavor["memory_mb"], flavor["root_gb"]


def _no_server(session: orm.Session, data: dict[str, Any]) -> None:
    server = session.get(Server, data["uuid"])
    if server is not None:
        session.delete(server)


def _node(session: orm.Session, data: dict[str, Any]) -> None:
    session.merge(Node(host=data["host"], disabled=data["disabled"], zone=data["availability_zone"]))


_METHODS: dict[str, Callable[[orm.Session, dict[str, Any]], None]] = {
    "instance.delete.end": _no_server,
    "service.create": _node,
    "service.update": _node,
}


_FIELDS = (
    *("uuid", "display_name", "host_name", "tenant_id", "user_id", "host", "node", "state", "task_state"),
    *("power_state", "locked", "image_uuid", "key_name", "availability_zone", "created_at", "updated_at"),
    "launched_at",
)
_SPECS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "flavorid", "name")
_WRITES = {
    "servers": ("INSERT OR REPLACE", len(_FIELDS) + len(_SPECS) + 4),
    "nodes": ("INSERT OR REPLACE", 3),
    "journal": ("INSERT", 6),
}
Rows = dict[str, list[tuple[Any, ...]]]


def shortest_pipeline(recording: pathlib.Path, target: pathlib.Path) -> float:
    """All events of a recording, with the rows and the journal of 500 in each commit; events a second."""
    connection = sqlite3.connect(target, isolation_level=None)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    specs = (*_SPECS, "extra_specs", "metadata", "tags", "addresses")
    for statement in (
        f"CREATE TABLE servers ({', '.join(f'f_{name}' for name in (*_FIELDS, *specs))}, PRIMARY KEY (f_uuid))",
        "CREATE INDEX of_host ON servers (f_host)",
        "CREATE INDEX of_project ON servers (f_tenant_id)",
        "CREATE TABLE nodes (host PRIMARY KEY, disabled, zone)",
        "CREATE TABLE journal (seq INTEGER PRIMARY KEY, id, time, type, cause, document)",
        "CREATE INDEX of_entity ON journal (id, seq)",
    ):
        connection.execute(statement)
    began, events, seq = time.perf_counter(), 0, 0
    rows: Rows = {"servers": [], "nodes": [], "journal": [], "gone": []}
    with recording.open("rb") as file:
        for line in file:
            document = json.loads(line)
            event_type = document["event_type"]
            make = _ROWS.get(event_type)
            if make is None and event_type.startswith("instance.") and not event_type.endswith(".start"):
                make = _server_row
            if make is not None:
                seq += 1
                row = make(rows, document["payload"]["nova_object.data"])
                entry = (seq, row[0], document["timestamp"], event_type, document["message_id"], json.dumps(row))
                rows["journal"].append(entry)
            events += 1
            if events % _BATCH == 0:
                _write_rows(connection, rows)
    _write_rows(connection, rows)
    seconds = time.perf_counter() - began
    connection.close()
    return events / seconds


def _server_row(rows: Rows, data: dict[str, Any]) -> tuple[Any, ...]:
    specs = data["flavor"]["nova_object.data"]
    addresses = [ip["nova_object.data"]["address"] for ip in data["ip_addresses"]]
    nested = [json.dumps(each) for each in (specs["extra_specs"], data["metadata"], data.get("tags"), addresses)]
    row = (*[data[name] for name in _FIELDS], *[specs[name] for name in _SPECS], *nested)
    rows["servers"].append(row)
    return row


def _gone_row(rows: Rows, data: dict[str, Any]) -> tuple[Any, ...]:
    row = (data["uuid"],)
    rows["gone"].append(row)
    return row


def _node_row(rows: Rows, data: dict[str, Any]) -> tuple[Any, ...]:
    row = (data["host"], data["disabled"], data["availability_zone"])
    rows["nodes"].append(row)
    return row


_ROWS: dict[str, Callable[[Rows, dict[str, Any]], tuple[Any, ...]]] = {
    "instance.delete.end": _gone_row,
    "service.create": _node_row,
    "service.update": _node_row,
}


def _write_rows(connection: sqlite3.Connection, rows: Rows) -> None:
    connection.execute("BEGIN")
    for table, (verb, columns) in _WRITES.items():
        connection.executemany(f"{verb} INTO {table} VALUES ({', '.join('?' * columns)})", rows[table])
    connection.executemany("DELETE FROM servers WHERE f_uuid = ?", rows["gone"])
    connection.execute("COMMIT")
    for table in rows.values():
        table.clear()


def naive_pipeline(recording: pathlib.Path, target: pathlib.Path, *, events: int) -> float:
    """So many events of a recording, taken from all over it, one by one; events a second."""
    with recording.open("rb") as file:
        step = max(1, sum(1 for _ in file) // events)
        file.seek(0)
        lines = list(itertools.islice(file, 0, None, step))[:events]
    engine = sa.create_engine(f"sqlite:///{target}")
    sa.event.listen(engine, "connect", set_pragmas)
    Base.metadata.create_all(engine)
    began = time.perf_counter()
    for line in lines:
        document = json.loads(line)
        event_type = document["event_type"]
        method = _METHODS.get(event_type)
        if method is None and event_type.startswith("instance.") and not event_type.endswith(".start"):
            method = _server
        if method is not None:
            with orm.Session(engine) as session:
                method(session, document["payload"]["nova_object.data"])
                session.commit()
    seconds = time.perf_counter() - began
    engine.dispose()
    return len(lines) / seconds


def set_pragmas(connection: Any, _record: Any) -> None:
    """For every new connection of an SQLAlchemy engine on SQLite: what our own engine sets."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()
