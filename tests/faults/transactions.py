# SPDX-License-Identifier: Apache-2.0
"""Every kind of write transaction of this package, and a process that stops within one.

The name of a kind is the place that begins its transactions, such as ``storage/drifts.py:_replace``.

:func:`transactions` finds the places in the source. :data:`CASES` has a function for each that reaches the place.
"""

from __future__ import annotations

import ast
import datetime
import itertools
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from oslo_config import cfg

import watcher_sync
from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.writing import commit, cycle_on
from tests.unit.extensions.log.rows import outlet_cursor
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.log import cursors
from watcher_sync.extensions.watch.model.topics import WatchTopic
from watcher_sync.extensions.watch.topic_rows import WatchPositions, WatchTopics
from watcher_sync.extensions.webhooks.rows import SubscriptionRow, WorkerWrites
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.model.changes import Change, Upsert
from watcher_sync.model.view import View
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage import drifts
from watcher_sync.storage.database import database
from watcher_sync.storage.drifts import forget_healed
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.groups import engines, removed_sources, source_status
from watcher_sync.storage.groups.engines import EngineRow
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.groups.operation_leases import LeaseRequest, OperationLeases
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.stored.parking import expire_parked
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.stored.quotas import DroppedEvents, EventQuotas
from watcher_sync.storage.stored.retention import Retention, enforce_quotas, purge
from watcher_sync.storage.writing import source_cursors
from watcher_sync.storage.writing.locked import lock_head
from watcher_sync.testing.kinds import builtin_kinds

_SOURCE: Final = Path(watcher_sync.__file__).parent
_HOSTS: Final = 50
_numbers = itertools.count(1)
NOW: Final = datetime.datetime.now(datetime.UTC)

EXEMPT: Final = {
    "storage/schema/schema.py:_upgrade": "an operator runs it, with limits that the operator sets",
    "storage/schema/schema.py:contract": "an operator runs it, with limits that the operator sets",
    "read/past/past_models.py:load": "its database is in memory, of one process",
    "storage/groups/leases.py:_end_stalled_transactions": "it only reads",
    "storage/writing/store.py:end_stalled_transactions": "it only reads",
}


class Writer:
    """A store as a process opens it, with the services that write through it."""

    def __init__(self, url: str, *, limited: bool = True) -> None:
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        opts.register_database(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override("connection", url, group="database")
        self.store = open_store(conf, builtin_kinds(), checked=False, limited=limited)
        self.database = self.store.database
        self.lease_database = database.open_database(conf, answer=2.0, limited=limited, autocommit=True)
        self.tables: Tables = self.store.tables
        self.engines = (self.database, self.store.commits, self.lease_database)
        self.lease = EngineLease(
            self.lease_database, self.tables, "engine:default", seconds=6.0, holder=f"machine-{uuid.uuid4()}/1"
        )
        self.shards = ShardLeases(self.database, self.tables, seconds=5.0, name=f"worker-{uuid.uuid4()}", shards=2)

    def write_hosts(self) -> None:
        """One commit of an engine that leads: it changes all hosts."""
        number = next(_numbers)
        cycle = cycle_on(self.store, _dispatcher(number), fence=lambda: self.lease.fence)
        commit(cycle, Event(id=f"e{number}", type="host.seen", source="nova", time=NOW))
        assert cycle.stats.changes == _HOSTS, cycle.stats.outcomes

    def close(self) -> None:
        self.store.dispose()
        self.lease_database.dispose()


class _Hosts:
    """A handler that writes all hosts."""

    events = {"host.seen": "seen"}  # noqa: RUF012 - the interface of handlers

    def __init__(self, number: int) -> None:
        self._number = number

    def seen(self, _event: Event, _view: View) -> Iterator[Change]:
        for i in range(_HOSTS):
            yield Upsert(
                "compute_node", f"host-{i}", f"{self._number:05d}", {"service": {"disabled_reason": str(self._number)}}
            )


def _dispatcher(number: int) -> Dispatcher:
    return Dispatcher([("hosts", _Hosts(number))])


def populate(writer: Writer) -> None:
    """Rows that the transactions write, of every table that they need."""
    writer.lease.try_take()
    writer.write_hosts()
    t = writer.tables
    with writer.database.begin() as connection:
        for table, keys in ((t.quarantine, range(101, 106)), (t.parked, range(101, 106))):
            for key in keys:
                _fill(connection, table, id=key, source="nova", digest=str(key), kind="instance", entity_id="i")
        _fill(connection, t.tombstones, kind="instance", id="gone")
        _fill(connection, t.source_status, source="nova", engine_group="default")
    writer.shards.beat()
    Subscriptions(writer.database, t).create(_subscription("s"))


def _fill(connection: sa.Connection, table: sa.Table, **given: Any) -> None:
    """Insert a row: what is not given has a value of its type, long ago."""
    values: dict[str, Any] = {}
    for column in table.columns:
        if column.name in given:
            values[column.name] = given[column.name]
        elif not column.nullable and column.autoincrement is not True and column.default is None:
            values[column.name] = _value(column.type)
    connection.execute(sa.insert(table).values(values))


def _value(kind: Any) -> Any:
    name = type(kind).__name__.lower()
    for part, value in (
        ("date", NOW - datetime.timedelta(days=400)),
        ("int", 1),
        ("float", 1.0),
        ("document", {}),
        ("bool", False),
        ("binary", b"{}"),
        ("blob", b"{}"),
    ):
        if part in name:
            return value
    return "x"


def _subscription(name: str) -> SubscriptionRow:
    return SubscriptionRow(
        id=str(uuid.uuid4()), instance_kind="instance", instance_id="i", name=name, project_id=None, user_id=None,
        sees_admin_only=False, callback_url="https://127.0.0.1/", min_notify_interval=0.0, secrets="secret",
        created_at=NOW, updated_at=NOW,
    )  # fmt: skip


def _subscriptions(w: Writer) -> Subscriptions:
    return Subscriptions(w.database, w.tables)


def _first(w: Writer) -> SubscriptionRow:
    row = _subscriptions(w).find("i", "s")
    assert row is not None
    return row[0]


def _lock_head(w: Writer) -> None:
    with lock_head(w.store) as (store, _model):
        store.persist_last_seen({"compute_node": _all_seen()})


def _all_seen() -> dict[str, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    return {f"host-{i}": now for i in range(_HOSTS)}


def _row(w: Writer) -> source_status.SourceRow:
    return source_status.SourceRow(
        source="nova", engine_group="default", host="h", pid=1, state="connected", since=NOW, updated_at=NOW
    )


def _replace_drifts(w: Writer) -> None:
    found = drifts.FieldDifference(
        kind="instance", entity_id="i", field="state", live_value=str(uuid.uuid4()), policy="heal"
    )
    drifts.replace_drifts(w.database, [found], source="nova", kinds=["instance"], now=NOW)


def _purge(w: Writer) -> None:
    day = datetime.timedelta(days=1)
    purge(w.database, w.tables, Retention(day, 1, day, day, day), datetime.datetime.now(datetime.UTC))


def _quotas(w: Writer) -> None:
    quotas = EventQuotas(
        quarantine_events_per_source=1, quarantine_bytes_per_source=0,
        parked_events_per_source=3, parked_bytes_per_source=0, parked_events_per_entity=1,
    )  # fmt: skip
    enforce_quotas(w.database, w.tables, quotas, DroppedEvents())


def _take_operation(w: Writer) -> None:
    request = LeaseRequest(
        kind="vnf_instance", entity_id="v", id=str(uuid.uuid4()), holder="h", operation="scale", seconds=0.1,
        user_id="u", project_id=None, secret_digest="x",
    )  # fmt: skip
    OperationLeases(w.database, w.tables).take(request)


def _remember(w: Writer) -> None:
    WatchPositions(w.database, w.tables).remember("t", "p", "s", 1)


def _topics(w: Writer) -> None:
    topics = WatchTopics(w.database, w.tables)
    topic = topics.create(WatchTopic(id=str(uuid.uuid4()), name=str(uuid.uuid4()), filters=()), quota=5)
    topics.delete(topic.id)


def _bury(w: Writer) -> None:
    ShardLeases(w.database, w.tables, seconds=5.0, name=str(uuid.uuid4()), shards=2).beat()
    ShardLeases(w.database, w.tables, seconds=0.0, name=str(uuid.uuid4()), shards=2).beat()


def _other_history(w: Writer) -> Position:
    """A position that the database does not have."""
    with w.store.connect() as connection:
        known = read_position(connection, w.tables)
    return Position(known.epoch, known.seq + 1_000_000, known.mark)


def _renew_by_tail(w: Writer) -> None:
    JournalReader(w.database, w.tables, interval=1.0)._begin_again(_other_history(w))


def _engine(w: Writer) -> EngineRow:
    return EngineRow(
        id=str(uuid.uuid4()), engine_group="default", host="h", pid=1, release="1", since=NOW, heartbeat_at=NOW, seq=1,
        lag_seconds=0.0, sources=["nova"],
    )  # fmt: skip


def _heal_drifts(w: Writer) -> None:
    """A drift of an entity that is gone is healed."""
    gone = drifts.FieldDifference(
        kind="compute_node", entity_id=str(uuid.uuid4()), field="status", live_value="enabled", policy="heal"
    )
    drifts.replace_drifts(w.database, [gone], source="edge", kinds=["compute_node"], now=NOW)
    forget_healed(w.database, w.tables, w.store.kinds)


def _write_epoch(w: Writer) -> None:
    w.shards.beat()
    owned = w.shards.owned
    WebhookStore(w.database, w.tables).write_epoch(uuid.uuid4().hex, 1, list(owned), owned, w.shards.name)


def _webhooks(w: Writer) -> None:
    w.shards.beat()
    WebhookStore(w.database, w.tables).write(WorkerWrites(sequence=1), w.shards.owned, w.shards.name)


CASES: Final[dict[str, Callable[[Writer], object]]] = {
    "storage/writing/store.py:_transact": lambda w: w.write_hosts(),
    "storage/writing/store.py:write": lambda w: w.store.persist_last_seen({"compute_node": _all_seen()}),
    "storage/groups/leases.py:_execute": lambda w: w.lease.beat(),
    "storage/writing/locked.py:lock_head": _lock_head,
    "storage/groups/source_status.py:write_sources": lambda w: source_status.write_sources(w.database, [_row(w)]),
    "storage/groups/source_status.py:mark_removed": lambda w: source_status.mark_removed(
        w.database, "default", [], NOW
    ),
    "storage/groups/removed_sources.py:forget_rows": lambda w: removed_sources.forget_rows(
        w.database, w.tables, removed_sources.Removed({}), "nova"
    ),
    "storage/groups/source_status.py:record_full_sync": lambda w: source_status.record_full_sync(
        w.database, "nova", NOW
    ),
    "storage/writing/source_cursors.py:write_cursor": lambda w: source_cursors.write_cursor(
        w.database, w.tables, "nova", "1"
    ),
    "storage/writing/source_cursors.py:next_epoch": lambda w: source_cursors.next_epoch(w.database, w.tables, "edge"),
    "storage/groups/source_status.py:declare_inventory": lambda w: source_status.declare_inventory(
        w.database, str(uuid.uuid4()), NOW
    ),
    "storage/groups/source_status.py:write_inventory": lambda w: source_status.write_inventory(
        w.database, source_status.InventoryRow(source="nova", updated_at=NOW)
    ),
    "storage/groups/source_status.py:forget_inventory": lambda w: source_status.forget_inventory(w.database, "nova"),
    "storage/drifts.py:_replace": _replace_drifts,
    "storage/stored/quarantine.py:drop": lambda w: Quarantine(w.store).drop([101]),
    "storage/stored/parking.py:expire_parked": lambda w: expire_parked(w.database, w.tables, NOW),
    "storage/stored/quotas.py:drop_oldest": _quotas,
    "storage/stored/retention.py:_trim_entities": _quotas,
    "storage/stored/retention.py:_purge_journal": _purge,
    "storage/stored/retention.py:_purge_older": _purge,
    "storage/groups/operation_leases.py:_begin": _take_operation,
    "extensions/webhooks/subscriptions.py:create": lambda w: _subscriptions(w).create(_subscription(str(uuid.uuid4()))),
    "extensions/webhooks/subscriptions.py:replace": lambda w: _subscriptions(w).replace(_first(w)),
    "extensions/webhooks/subscriptions.py:add_test": lambda w: _subscriptions(w).add_test(
        _first(w).id, str(uuid.uuid4()), "application/json", b"{}"
    ),
    "extensions/webhooks/subscriptions.py:reencrypt": lambda w: _subscriptions(w).reencrypt(
        lambda secret: secret + "x"
    ),
    "extensions/webhooks/subscriptions.py:_change": lambda w: _subscriptions(w).replay(_first(w).id, 0),
    "extensions/watch/topic_rows.py:create": _topics,
    "extensions/watch/topic_rows.py:delete": _topics,
    "extensions/watch/topic_rows.py:remember": _remember,
    "extensions/webhooks/worker_rows.py:write": _webhooks,
    "extensions/webhooks/worker_rows.py:write_epoch": _write_epoch,
    "storage/writing/store.py:begin_epoch": lambda w: w.store.begin_epoch(),
    "storage/writing/store.py:renew": lambda w: w.store.reload(_other_history(w)),
    "read/journal_reader.py:_begin_again": _renew_by_tail,
    "storage/drifts.py:_forget": _heal_drifts,
    "storage/groups/engines.py:write_engine": lambda w: engines.write_engine(w.database, _engine(w)),
    "storage/groups/engines.py:end_engine": lambda w: engines.end_engine(w.database, "x", NOW),
    "extensions/log/cursors.py:write_outlet": lambda w: cursors.write_outlet(w.database, outlet_cursor()),
    "extensions/webhooks/worker_rows.py:purge": lambda w: WebhookStore(w.database, w.tables).purge(NOW),
    "extensions/webhooks/shards.py:give_back": lambda w: w.shards.give_back([0]),
    "extensions/webhooks/shards.py:leave": lambda w: w.shards.leave(),
    "extensions/webhooks/shards.py:_increment_beat": lambda w: w.shards.beat(),
    "extensions/webhooks/shards.py:_bury": _bury,
    "extensions/webhooks/shards.py:_take": _bury,
}


def transactions() -> set[str]:
    """The places that begin a write transaction, as ``file:function``."""
    found: set[str] = set()
    for path in _SOURCE.rglob("*.py"):
        file = path.relative_to(_SOURCE).as_posix()
        if not file.startswith(("storage/schema/migrations/", "testing/", "demo/")):
            found |= {f"{file}:{function}" for function in _beginning(ast.parse(path.read_text()), "")}
    return found


def _beginning(node: ast.AST, function: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            owner = ast.unparse(child.func.value)
            if child.func.attr == "begin" and owner.endswith(("database", "connection", "commits", "engine")):
                yield function
        yield from _beginning(child, inner)


class Stop:
    """Stops all traffic of a writer at the end of a transaction of one kind, before its commit."""

    def __init__(self, writer: Writer, proxy: FaultyProxy, kind: str) -> None:
        self._proxy = proxy
        file, _, function = kind.partition(":")
        # A commit of an engine is ended by another function than the one that begins it.
        self._functions = {function, "_end"} if function == "_transact" else {function}
        self._file = str(_SOURCE / file)
        self.stopped = threading.Event()
        # The statement of a lease is a transaction of its own: there is no later moment.
        name = "after_cursor_execute" if kind == "storage/groups/leases.py:_execute" else "commit"
        for engine in dict.fromkeys(writer.engines):
            sa.event.listen(engine, name, self._on_end)

    def _on_end(self, *_arguments: Any) -> None:
        if not self.stopped.is_set() and self._is_within():
            self._proxy.refuse()
            self._proxy.silence()
            self.stopped.set()

    def _is_within(self) -> bool:
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name in self._functions and frame.f_code.co_filename == self._file:
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False
