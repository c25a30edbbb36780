# SPDX-License-Identifier: Apache-2.0
"""From JetStream to a committed model: simulated DCM providers, through a real server, into SQLite and PostgreSQL.

The rows exist and the stream is filled once, before the first measurement. Each measurement has a durable consumer
and a database of its own. At its end the model is compared with the state of the simulator: a wrong model has no
figure.

The reference is the loop that one would write first: ``fetch(1)``, the CloudEvents SDK, an ORM session and a
commit per event, then the ack. It ignores order, aliases and deviating publishers. It skips what it cannot read,
which makes it faster.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import nats
import sqlalchemy as sa
from cloudevents.core.bindings.http import HTTPMessage, from_structured
from cloudevents.core.formats.json import JSONFormat
from nats.js.api import AckPolicy, ConsumerConfig
from sqlalchemy import orm

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.references import set_pragmas
from tests.benchmarks.running import Broken, Pace, counted, pace_of, running_engine
from tests.services.servers import private_nats
from watcher_sync.events import Event
from watcher_sync.model.changes import WRITTEN_HERE, Upsert, Version
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm.providers import UNTOLD, Message, ProviderSimulator, Row

_STREAM = "dcm-status"
_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_PATIENCE = 120.0


class _Filled(NamedTuple):
    """A stream that is filled, and what is true once it is worked off."""

    url: str
    rows: Sequence[dict[str, Any]]
    messages: int
    truth: dict[str, dict[str, dict[str, Any]]]


def jetstream(bench: Bench) -> list[Figure]:
    """The committed rate, and its ratio to the naive loop, on both databases in turn."""
    ours: dict[str, list[Pace]] = {name: [] for name in _DATABASES}
    theirs: dict[str, list[Pace]] = {name: [] for name in _DATABASES}
    numbers = itertools.count()
    with private_nats() as server:
        filled = _fill(server.url, bench)
        for _ in range(bench.scale.pairs):
            for name in _DATABASES:
                gc.collect()
                ours[name].append(_engine_pace(bench, filled, name, f"engine-{next(numbers)}"))
                theirs[name].append(_naive_pace(bench, filled, name, f"naive-{next(numbers)}"))
    size = f"{filled.messages:,} events over {len(filled.rows):,} rows"
    naive = f"fetch(1), CloudEvents SDK, ORM, commit per event; {min(bench.scale.naive, filled.messages):,} events"
    figures: list[Figure] = []
    for name, title in _DATABASES.items():
        figures += _figures(title, ours[name], theirs[name], size=size, naive=naive)
    return figures


def _figures(title: str, ours: Sequence[Pace], theirs: Sequence[Pace], *, size: str, naive: str) -> list[Figure]:
    rates = [pace.rate for pace in ours]
    return [
        Figure(
            benchmark="jetstream",
            what=f"JetStream to a committed model, {title}",
            measured=statistics.median(rates),
            unit="events/s",
            budget=Budget(">=", 17_000, "events/s"),
            samples=rates,
            note=size,
        ),
        against(
            [(own.rate, other.rate) for own, other in zip(ours, theirs, strict=True)],
            benchmark="jetstream",
            what=f"... against the naive loop, {title}",
            unit="events/s",
            reference_unit="events/s",
            budget=Budget(">=", 11),
            note=naive,
        ),
        Figure(
            benchmark="jetstream",
            what=f"... processor time of the process, {title}",
            measured=statistics.median(pace.processor for pace in ours),
            unit="µs/event",
            reference=statistics.median(pace.processor for pace in theirs),
            reference_unit="µs/event",
            ratio=statistics.median(own.processor / other.processor for own, other in zip(ours, theirs, strict=True)),
            samples=[pace.processor for pace in ours],
            note="all its threads; without the servers",
        ),
    ]


def _fill(url: str, bench: Bench) -> _Filled:
    """Make the stream and publish all of it."""
    simulator = ProviderSimulator(seed=11, instances=bench.scale.instances // 10, late=0, health=0)
    steps = simulator.history(bench.scale.messages * 4)
    messages = [step for step in steps if isinstance(step, Message)]
    asyncio.run(_publish(url, messages))
    rows = [step.body for step in steps if isinstance(step, Row)]
    return _Filled(url, rows, len(messages), simulator.truth())


async def _publish(url: str, messages: Sequence[Message]) -> None:
    client = await nats.connect(url)
    try:
        await client.jetstream().add_stream(name=_STREAM, subjects=["dcm.*"])
        for message in messages:
            headers = {"Nats-Msg-Id": message.message_id} if message.message_id is not None else None
            await client.publish(message.subject, message.body, headers=headers)
        await client.flush(60)
        async with asyncio.timeout(_PATIENCE):
            while (await client.jetstream().stream_info(_STREAM)).state.messages < len(messages):
                await asyncio.sleep(0.01)
    finally:
        await client.close()


# -- ours -----------------------------------------------------------------------------------------------------


def _engine_pace(bench: Bench, filled: _Filled, database: str, durable: str) -> Pace:
    """The real engine's, from the first commit to the last.

    :raises Broken: when the model that it leaves is not what the simulator knows.
    """
    source: dict[str, object] = {
        "driver": "nats_jetstream",
        "servers": filled.url,
        "stream": _STREAM,
        "subject": "dcm.*",
    }
    with bench.database(database) as url:
        place = bench.place(
            connection=url, engine={"enabled_sources": "dcm"}, source_dcm={**source, "durable": durable}
        )
        _make_rows(place.store, filled.rows)
        with running_engine(place) as engine:
            pace = pace_of(lambda: counted(engine)[0], filled.messages)
        _check(place, filled)
        place.store.database.dispose()
    return pace


def _make_rows(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    """Make the instances, as the API does."""
    model = Model(store.kinds)
    model.replace_with(store.load())
    transaction = Transaction(model)
    for number, row in enumerate(rows):
        spec = {name: row[name] for name in ("service_type", "instance_name", "spec")}
        facets = {"spec": spec, "provider": {"provider_name": row["provider_name"]}}
        change = Upsert("service_type_instance", row["id"], Version(f"{WRITTEN_HERE}{number:020d}"), facets)
        transaction.apply(Event(id="api", type="api", source="api"), [change])
    store.commit(Commit(generation=model.generation, staged=transaction.staged()))


def _check(place: Place, filled: _Filled) -> None:
    difference = next(compare(filled.truth, place.store.load().snapshot(), ignored=UNTOLD), None)
    if difference is not None:
        raise Broken(f"the model is wrong: {difference}")


# -- the naive loop -------------------------------------------------------------------------------------------


class _Base(orm.DeclarativeBase):
    """The naive loop's table."""


class _Instance(_Base):
    """A service-type instance as the naive loop keeps it."""

    __tablename__ = "naive_instances"
    id: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    service_type: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    instance_name: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    provider_name: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    spec: orm.Mapped[Any | None] = orm.mapped_column(sa.JSON, nullable=True)
    status: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    status_message: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    output_spec: orm.Mapped[Any | None] = orm.mapped_column(sa.JSON, nullable=True)
    updated_at: orm.Mapped[Any | None] = orm.mapped_column(sa.DateTime(timezone=True), nullable=True)


def _naive_pace(bench: Bench, filled: _Filled, database: str, durable: str) -> Pace:
    """The naive loop's, on the first events of the stream."""
    with bench.database(database) as url:
        engine = sa.create_engine(url)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", set_pragmas)
        _Base.metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add_all(_Instance(**row) for row in filled.rows)
            session.commit()
        try:
            return asyncio.run(_naive(filled.url, engine, durable, min(bench.scale.naive, filled.messages)))
        finally:
            engine.dispose()


async def _naive(url: str, engine: sa.Engine, durable: str, events: int) -> Pace:
    client = await nats.connect(url)
    try:
        config = ConsumerConfig(durable_name=durable, ack_policy=AckPolicy.EXPLICIT, ack_wait=60)
        await client.jetstream().add_consumer(_STREAM, config)
        subscription = await client.jetstream().pull_subscribe_bind(durable, _STREAM)
        began, worked = time.perf_counter(), time.process_time()
        for _ in range(events):
            (message,) = await subscription.fetch(1, timeout=5)
            _store(engine, message.data)
            await message.ack()
        await client.flush()
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        return Pace(events / seconds, worked * 1e6 / events)
    finally:
        await client.close()


_FORMAT = JSONFormat()
_HEADERS = {"content-type": "application/cloudevents+json"}


def _store(engine: sa.Engine, body: bytes) -> None:
    try:
        event = from_structured(HTTPMessage(_HEADERS, body), _FORMAT)
    except Exception:  # noqa: BLE001 - not as the SDK will have it, and so it is skipped
        return
    data: Any = event.get_data()
    key = data.get("id") or event.get_subject()
    with orm.Session(engine) as session:
        instance = session.get(_Instance, key) if key is not None else None
        if instance is not None:
            instance.status = data["status"]
            instance.status_message = data.get("message")
            instance.output_spec = data.get("output_spec") or instance.output_spec
            instance.updated_at = event.get_time()
        session.commit()
