# SPDX-License-Identifier: Apache-2.0
"""An administrator repairs a frozen or wrongly deleted entity, while engines and standbys run."""
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa

from tests.simulated import NOON, whole
from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from tests.unit.security.test_time import CREATE, FAR, dcm, nova, own
from watcher_sync.commit import entity_repair
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitLimits, CommitOptions
from watcher_sync.commit.cycle import CommitCycle, LastSeenWriter
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.entity_repair import CannotRepair
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.model.changes import Delete, Outcome, Upsert, Version
from watcher_sync.storage.writing.journal import read_since
from watcher_sync.storage.writing.locked import lock_head

AGES = 4000 * 366 * 86_400.0
"""A skew that lets an event of 5137 in."""


class Clusters:
    """A plugin that says which clusters there are."""

    events: ClassVar[Mapping[str, str]] = {"own.cluster.up": "on_up", "own.cluster.down": "on_down"}

    def on_up(self, event: Event, _view: Any) -> tuple[Upsert]:
        return (Upsert("cluster", "edge", Version(str(event.time)), {"state": {"detail": event.id}}),)

    def on_down(self, event: Event, _view: Any) -> tuple[Delete]:
        return (Delete("cluster", "edge", Version(str(event.time))),)


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher([("nova", NovaHandler()), ("dcm", DcmHandler(CREATE)), ("own", Clusters())])


@pytest.fixture
def engine(store: Any, dispatcher: Dispatcher) -> CommitCycle:
    """A running engine, which lets the far future in."""
    return CommitCycle(store, store.load(), dispatcher, CommitOptions(limits=CommitLimits(max_clock_skew=AGES)))


@pytest.fixture
def standby(store: Any, dispatcher: Dispatcher) -> CommitCycle:
    return CommitCycle(store, store.load(), dispatcher)


@pytest.fixture
def writer(store: Any, dispatcher: Dispatcher) -> DirectWriter:
    return DirectWriter(store, dispatcher)


def run(cycle: CommitCycle, *events: Event) -> Outcome:
    """Commit the events as one batch; the outcome of the last one."""
    before = dict(cycle.stats.outcomes)
    for event in events:
        before = dict(cycle.stats.outcomes)
        cycle.run(Batch(events=[event]))
    (outcome,) = [o for (s, o), n in cycle.stats.outcomes.items() if n > before.get((s, o), 0)]
    return outcome


def field(cycle: CommitCycle, kind: str, entity_id: str, name: str) -> Any:
    cycle.follow()
    return getattr(cycle.model.get(kind, entity_id), name)


def deleted(event_id: str, **fields: Any) -> Event:
    event = nova(event_id, state="deleted", deleted_at="2026-03-01T11:00:00Z", **fields)
    event_type = "instance.delete.end"
    return Event(id=event_id, type=event_type, source="nova", origin=event.origin, time=event.time, data=event.data)


def test_after_a_reset_the_next_event_writes_in_the_engine_and_in_its_standby(
    store: Any, engine: CommitCycle, standby: CommitCycle, writer: DirectWriter
) -> None:
    run(engine, dcm("1", time=FAR))
    assert run(engine, dcm("2", "STOPPED", time=NOON)) is Outcome.STALE
    repaired = entity_repair.reset(writer, store.kinds["service_type_instance"], "vm-1")
    assert set(repaired.facets) == {"spec", "provider", "status"}
    engine.follow()  # as an engine does within journal_poll_interval
    assert run(engine, dcm("3", "STOPPED", time=NOON)) is Outcome.APPLIED
    assert field(engine, "service_type_instance", "vm-1", "status") == "STOPPED"
    assert field(standby, "service_type_instance", "vm-1", "status") == "STOPPED"
    assert whole(engine.model) == whole(standby.model) == whole(store.load())
    assert run(standby, dcm("0", "FAILED", time=NOON - datetime.timedelta(1))) is Outcome.STALE


def test_a_reset_has_a_row_in_the_journal_with_its_type_and_no_field(
    store: Any, engine: CommitCycle, writer: DirectWriter
) -> None:
    run(engine, dcm("1", time=FAR))
    repaired = entity_repair.reset(writer, store.kinds["service_type_instance"], "vm-1", "status")
    assert list(repaired.facets) == ["status"]
    with store.connect() as connection:
        row = read_since(connection, store.tables, repaired.seq - 1, 10)[-1]
    assert (row.event_type, row.source, row.change, row.delta) == ("manage.entity.reset", "manage", "updated", {})
    assert row.entity_id == "vm-1"
    engine.follow()
    assert run(engine, dcm("2", "STOPPED", time=NOON)) is Outcome.APPLIED
    assert field(engine, "service_type_instance", "vm-1", "status") == "STOPPED"


def test_what_the_api_has_written_is_not_reset_so_no_event_may_write_it(
    store: Any, engine: CommitCycle, writer: DirectWriter, client: Any
) -> None:
    body = {"service_type": "vm", "provider_name": "p"}
    assert client.simulate_put("/v1/service_type_instances/vm-1", json=body).status_code == 201
    run(engine, dcm("1", time=FAR))
    kind = store.kinds["service_type_instance"]
    with pytest.raises(CannotRepair, match="the facet spec of service_type_instance vm-1 was written by watcher_sync"):
        entity_repair.reset(writer, kind, "vm-1", "spec")
    assert list(entity_repair.reset(writer, kind, "vm-1").facets) == ["status"]
    row = store.load().get("service_type_instance", "vm-1")
    assert row.versions[kind.facet_position["spec"]].startswith("~")
    engine.follow()
    assert run(engine, dcm("2", "STOPPED", time=NOON)) is Outcome.APPLIED


def test_a_reset_also_repairs_when_a_host_was_last_seen(
    store: Any, engine: CommitCycle, standby: CommitCycle, writer: DirectWriter
) -> None:
    service = {
        "nova_object.name": "ServiceStatusPayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {"host": "h", "binary": "nova-compute", "disabled": True},
    }
    told = {"type": "service.create", "source": "nova", "origin": "nova-compute:h"}
    run(engine, Event(id="1", time=FAR, data=service, **told))
    LastSeenWriter(store, engine.model, CommitLimits()).persist()
    standby.follow()
    standby.model.set_last_seen("compute_node", {"h": FAR})
    entity_repair.reset(writer, store.kinds["compute_node"], "h")
    engine.follow()
    enabled = {**service, "nova_object.data": {**service["nova_object.data"], "disabled": False}}  # type: ignore[dict-item]
    assert run(engine, Event(id="2", time=NOON, data=enabled, **told)) is Outcome.APPLIED
    assert field(engine, "compute_node", "h", "status") == "enabled"
    assert engine.model.last_seen("compute_node") == {"h": NOON}
    standby.follow()
    assert standby.model.last_seen("compute_node") == {}
    LastSeenWriter(store, engine.model, CommitLimits()).persist()
    assert store.load().last_seen("compute_node") == {"h": NOON}


def test_a_deletion_from_the_future_does_not_keep_an_id_that_is_used_again_from_being_written(
    store: Any, engine: CommitCycle, writer: DirectWriter
) -> None:
    kind = store.kinds["cluster"]
    assert kind.ids_reused
    run(engine, own("1", "cluster.up", time=NOON), own("2", "cluster.down", time=FAR))
    assert run(engine, own("3", "cluster.up", time=NOON)) is Outcome.STALE
    entity_repair.reset(writer, kind, "edge")
    engine.follow()
    assert run(engine, own("4", "cluster.up", time=NOON)) is Outcome.APPLIED
    assert field(engine, "cluster", "edge", "detail") == "4"


def test_an_undelete_restores_the_last_state_everywhere_and_events_follow_it(
    store: Any, engine: CommitCycle, standby: CommitCycle, writer: DirectWriter
) -> None:
    run(engine, nova("1", host="h", node="h", display_name="web"), nova("2", state="stopped"))
    before = engine.model.get("instance", "i-1")
    run(engine, deleted("3", host="h"))
    assert run(engine, nova("4", state="active")) is Outcome.STALE
    kind = store.kinds["instance"]
    with pytest.raises(CannotRepair, match="instance i-1 is deleted; entity undelete restores it"):
        entity_repair.reset(writer, kind, "i-1")
    repaired = entity_repair.undelete(writer, kind, "i-1")
    standby.follow()
    engine.follow()
    for cycle in (engine, standby):
        after = cycle.model.get("instance", "i-1")
        assert kind.to_json(after) == kind.to_json(before)  # type: ignore[arg-type]
        assert after.versions == before.versions  # type: ignore[union-attr]
        assert cycle.model.tombstone("instance", "i-1") is None
    replicas = [whole(model)["instance"] for model in (engine.model, standby.model, store.load())]
    assert replicas[0] == replicas[1] == replicas[2]
    with store.connect() as connection:
        (row,) = read_since(connection, store.tables, repaired.seq - 1, 10)[:1]
        assert (row.event_type, row.change) == ("manage.entity.undelete", "created")
    assert run(engine, nova("5", state="active", updated_at="2026-03-01T11:30:00Z")) is Outcome.APPLIED
    assert run(engine, nova("0", updated_at="2026-02-01T11:30:00Z")) is Outcome.STALE


def test_an_undelete_finds_the_deletion_before_more_remarks_than_it_reads_rows(
    store: Any, engine: CommitCycle, writer: DirectWriter
) -> None:
    run(engine, nova("1", display_name="web"), deleted("2"))
    with lock_head(store) as (held, _), held.connect() as connection:
        journal, head = held.tables.journal, held.tables.journal_head
        last = connection.execute(sa.select(journal).order_by(journal.c.seq.desc()).limit(1)).one()
        remark = {**last._mapping, "change": "updated", "delta": {}, "versions": {}}
        connection.execute(sa.insert(journal), [{**remark, "seq": last.seq + n} for n in range(1, 1002)])
        connection.execute(sa.update(head).values(seq=last.seq + 1001))
    entity_repair.undelete(writer, store.kinds["instance"], "i-1")
    assert field(engine, "instance", "i-1", "name") == "web"


def test_an_undelete_of_a_host_that_is_gone_restores_its_service(
    store: Any, engine: CommitCycle, standby: CommitCycle, writer: DirectWriter
) -> None:
    def service(event_id: str, event_type: str, time: datetime.datetime) -> Event:
        data = {
            "nova_object.name": "ServiceStatusPayload",
            "nova_object.namespace": "nova",
            "nova_object.version": "1.1",
            "nova_object.data": {"host": "h", "binary": "nova-compute", "disabled": True, "disabled_reason": "x"},
        }
        return Event(id=event_id, type=event_type, source="nova", origin="nova-api:x", time=time, data=data)

    run(engine, service("1", "service.update", NOON), nova("2", host="h", node="h"))
    run(engine, service("3", "service.delete", FAR))
    assert field(engine, "compute_node", "h", "gone") is True
    entity_repair.undelete(writer, store.kinds["compute_node"], "h")
    for cycle in (engine, standby):
        assert field(cycle, "compute_node", "h", "gone") is False
        assert field(cycle, "compute_node", "h", "disabled_reason") == "x"
    later = NOON + datetime.timedelta(1)
    assert run(engine, service("4", "service.update", later)) is Outcome.APPLIED


def test_what_the_api_deleted_comes_back_as_the_apis(
    store: Any, engine: CommitCycle, writer: DirectWriter, client: Any
) -> None:
    path = "/v1/service_type_instances/vm-1"
    body = {"service_type": "vm", "provider_name": "p"}
    assert client.simulate_put(path, json=body).status_code == 201
    assert client.simulate_delete(path).status_code == 204
    with store.connect() as connection:  # the journal has no more than the deletion
        connection.execute(sa.delete(store.tables.journal).where(store.tables.journal.c.change == "created"))
        connection.commit()
    entity_repair.undelete(writer, store.kinds["service_type_instance"], "vm-1")
    found = client.simulate_get(path).json
    assert {name: found[name] for name in body} == body
    kind = store.kinds["service_type_instance"]
    assert store.load().get(kind.name, "vm-1").versions[kind.facet_position["spec"]].startswith("~")
    assert client.simulate_put(path, json=body).status_code == 200


def test_what_cannot_be_repaired_is_refused_with_the_reason(
    store: Any, engine: CommitCycle, writer: DirectWriter
) -> None:
    instance = store.kinds["instance"]
    with pytest.raises(CannotRepair, match="instance x does not exist"):
        entity_repair.reset(writer, instance, "x")
    with pytest.raises(CannotRepair, match="instance x is unknown: it has no tombstone and no row in the journal"):
        entity_repair.undelete(writer, instance, "x")
    run(engine, nova("1"))
    with pytest.raises(CannotRepair, match="instance i-1 is not deleted"):
        entity_repair.undelete(writer, instance, "i-1")
    with pytest.raises(CannotRepair, match="no event has written instance i-1, facet lock"):
        entity_repair.reset(writer, instance, "i-1", "lock")
    run(engine, deleted("2"))
    with store.connect() as connection:
        connection.execute(sa.delete(store.tables.journal))
        connection.commit()
    head = engine.model.generation
    with pytest.raises(CannotRepair, match=r"no longer has the last state of instance i-1.*\[retention\] journal_days"):
        entity_repair.undelete(writer, instance, "i-1")
    assert store.load().generation == head
