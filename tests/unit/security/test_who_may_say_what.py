# SPDX-License-Identifier: Apache-2.0
"""Which source may bring which events: the table of the built-in drivers and handlers, its option, and its way out."""

from __future__ import annotations

import itertools
import json
import random
import string
from typing import Any, ClassVar

import pytest
from oslo_config import cfg

from tests.migrated import migrate
from tests.unit.api.conftest import Client
from watcher_sync.api.service import Service
from watcher_sync.assembly import sources
from watcher_sync.assembly.api import make_app
from watcher_sync.assembly.sources import ConfiguredGrants, load_driver, make_authority
from watcher_sync.commit.authorisation import Authority, overlap, recording, with_own_sources
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.replay import replay, replay_quarantined
from watcher_sync.conf import opts
from watcher_sync.demo.in_process import InProcessSource
from watcher_sync.dispatch import Dispatcher, load_handlers, matches
from watcher_sync.events import CLOUD_EVENTS, KUBERNETES_WATCH, NATIVE, OSLO, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.sources.base import Source
from watcher_sync.storage.database import database
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wire.envelopes import read_body, read_message, text_of

NOVA = {"event_type": "service.update", "publisher_id": "nova-api:a", "payload": {"x": 1}, "message_id": "m"}
LISTED = {"kind": "Pod", "uids": []}


@pytest.fixture
def conf(tmp_path):
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    conf.set_override("auth_strategy", "noauth", group="api")
    others = {"edge": "kubernetes", "files": "replay", "region": "federation"}
    configure(conf, nova="oslo_messaging", cell="rabbitmq", dcm="nats_jetstream", **others)
    return conf


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture(scope="module")
def dispatcher():
    return load_handlers(cfg.ConfigOpts())


@pytest.fixture
def authority(conf, dispatcher):
    return Authority(dispatcher, with_own_sources(ConfiguredGrants(conf)))


def configure(conf: cfg.ConfigOpts, **drivers: str) -> None:
    conf.set_override("enabled_sources", list(drivers), group="engine")
    for name, driver in drivers.items():
        opts.register_source(conf, name, [])
        conf.set_override("driver", driver, group=f"source_{name}")


def event(source: str, envelope: str, event_type: str) -> Event:
    return Event(id="1", type=event_type, source=source, envelope=envelope, data=b"{}")


def cloud_event(event_type: str, data: Any = None, **more: Any) -> bytes:
    document = {"specversion": "1.0", "id": "c", "source": "edge", "type": event_type, "data": data or {}, **more}
    return json.dumps(document).encode()


ALLOWED = [
    ("nova", OSLO, "instance.delete.end"), ("nova", OSLO, "service.update"), ("nova", OSLO, "aggregate.create.end"),
    ("cell", OSLO, "instance.delete.end"), ("cell", OSLO, "service.update"),
    ("dcm", CLOUD_EVENTS, "dcm.status.vm"), ("dcm", CLOUD_EVENTS, "dcm.agent.health.service-type-degraded"),
    ("dcm", CLOUD_EVENTS, "service-type-degraded"), ("dcm", CLOUD_EVENTS, "com.example.status"),
    ("edge", NATIVE, "kubernetes.pod.added"), ("edge", NATIVE, "kubernetes.pod.listed"),
    ("edge", NATIVE, "kubernetes.cluster.connected"),
    ("region", NATIVE, "federation.pod.changed"), ("region", NATIVE, "federation.pod.listed"),
    ("files", OSLO, "instance.delete.end"), ("files", CLOUD_EVENTS, "dcm.vm"),
    ("files", KUBERNETES_WATCH, "kubernetes.pod.deleted"), ("replay", KUBERNETES_WATCH, "kubernetes.pod.added"),
    ("api", CLOUD_EVENTS, "dcm.status.vm"), ("api", CLOUD_EVENTS, "instance.update"),
]  # fmt: skip

REFUSED = [
    ("dcm", CLOUD_EVENTS, "instance.delete.end"), ("dcm", OSLO, "service.update"), ("dcm", OSLO, "dcm.status.vm"),
    ("dcm", CLOUD_EVENTS, "kubernetes.pod.listed"), ("dcm", CLOUD_EVENTS, "kubernetes.pod.added"),
    ("dcm", KUBERNETES_WATCH, "kubernetes.pod.added"), ("dcm", OSLO, "no.handler"),
    ("nova", OSLO, "dcm.status.vm"), ("nova", CLOUD_EVENTS, "instance.update"), ("nova", OSLO, "kubernetes.pod.added"),
    ("cell", OSLO, "dcm.status.vm"), ("cell", CLOUD_EVENTS, "instance.update"),
    ("nova", OSLO, "kubernetes.cluster.connected"), ("nova", KUBERNETES_WATCH, "kubernetes.pod.deleted"),
    ("edge", NATIVE, "instance.delete.end"), ("edge", CLOUD_EVENTS, "kubernetes.pod.added"),
    ("files", CLOUD_EVENTS, "kubernetes.pod.listed"), ("files", OSLO, "kubernetes.cluster.disconnected"),
    ("files", CLOUD_EVENTS, "kubernetes.pod.added"), ("replay", OSLO, "kubernetes.cluster.synced"),
    ("api", CLOUD_EVENTS, "kubernetes.pod.listed"), ("api", CLOUD_EVENTS, "kubernetes.cluster.connected"),
    ("api", CLOUD_EVENTS, "kubernetes.pod.added"), ("api", OSLO, "instance.update"),
    ("stranger", OSLO, "instance.update"), ("region", NATIVE, "instance.update"),
    ("edge", NATIVE, "federation.pod.listed"),
    ("api", CLOUD_EVENTS, "federation.pod.changed"), ("files", CLOUD_EVENTS, "federation.pod.listed"),
]  # fmt: skip


@pytest.mark.parametrize("brought", ALLOWED, ids=" ".join)
def test_a_source_brings_the_events_of_its_own_dialects(authority, brought):
    assert authority.refusal(event(*brought)) is None


@pytest.mark.parametrize("brought", REFUSED, ids=" ".join)
def test_a_source_brings_no_other_events_and_the_reason_names_it(authority, brought):
    reason = authority.refusal(event(*brought))
    assert reason.startswith("unauthorised: ")
    source, _, event_type = brought
    assert repr(event_type) in reason
    assert (source if source != "api" else "POST /v1/events") in reason


def test_the_reason_names_source_driver_envelope_type_and_option(authority):
    assert authority.refusal(event("dcm", CLOUD_EVENTS, "instance.delete.end")) == (
        "unauthorised: source dcm (driver nats_jetstream) may not bring 'instance.delete.end' in the envelope"
        " cloudevents: it is an event of nova, whose drivers are: oslo_messaging, rabbitmq,"
        " rabbitmq_stream (see [source_dcm] event_types)"
    )
    assert authority.refusal(event("dcm", OSLO, "service.update")) == (
        "unauthorised: source dcm (driver nats_jetstream) may not bring 'service.update' in the envelope oslo, only in"
        " cloudevents (see [source_dcm] event_types)"
    )


def test_every_type_that_only_our_driver_makes_is_refused_from_everything_else(authority, dispatcher):
    reserved = dispatcher.dialect("kubernetes").reserved
    for pattern in reserved:
        event_type = pattern.replace("*", "daemonset")
        for source in ("nova", "dcm", "files", "replay", "api", "edge"):
            for envelope in (OSLO, CLOUD_EVENTS, KUBERNETES_WATCH):
                assert authority.refusal(event(source, envelope, event_type)), (source, envelope, event_type)


# The option


def test_the_option_makes_a_source_narrower(conf, dispatcher):
    conf.set_override("event_types", ["service.*", "instance.create.end"], group="source_nova")
    authority = make_authority(conf, dispatcher)
    assert authority.refusal(event("nova", OSLO, "service.update")) is None
    assert authority.refusal(event("nova", OSLO, "instance.create.end")) is None
    reason = authority.refusal(event("nova", OSLO, "instance.delete.end"))
    assert reason.endswith("[source_nova] event_types leaves it out")


@pytest.mark.parametrize("pattern", ["instance.*", "kubernetes.pod.listed", "kubernetes.*", "rack.*"])
def test_a_pattern_for_what_the_driver_may_not_bring_is_named_at_the_start(conf, dispatcher, pattern):
    conf.set_override("event_types", ["dcm.*", pattern], group="source_dcm")
    with pytest.raises(ConfigError, match=r"\[source_dcm\] event_types: '.*' is nothing that source dcm"):
        make_authority(conf, dispatcher)


def test_a_wide_pattern_does_not_make_a_source_wider(conf, dispatcher):
    conf.set_override("event_types", ["*"], group="source_dcm")
    authority = make_authority(conf, dispatcher)
    assert authority.refusal(event("dcm", CLOUD_EVENTS, "dcm.vm")) is None
    assert authority.refusal(event("dcm", CLOUD_EVENTS, "instance.delete.end"))


def test_two_patterns_overlap_exactly_if_some_type_matches_both():
    rng = random.Random(5)
    types = ["".join(p) for n in range(4) for p in itertools.product("ab", repeat=n)]
    for _ in range(300):
        one, other = ("".join(rng.choice("ab*") for _ in range(rng.randint(0, 4))) for _ in range(2))
        both = any(matches(t, [one]) and matches(t, [other]) for t in types)
        assert overlap(one, other) or not both, (one, other)
        if not overlap(one, other):
            continue
        longer = [*types, *("".join(p) for n in range(4, 8) for p in itertools.product("ab", repeat=n))]
        assert any(matches(t, [one]) and matches(t, [other]) for t in longer), (one, other)


# Plugins


class Racks:
    """A handler of a third party."""

    events: ClassVar = {"rack.*": "on_rack"}
    drivers: ClassVar = ("nats_jetstream",)

    def on_rack(self, event, view):
        yield Upsert("aggregate", event.subject, event.id, {"state": {"name": "told"}})


def test_a_plugins_handler_names_the_drivers_that_bring_its_events(conf):
    authority = Authority(Dispatcher([("racks", Racks())]), ConfiguredGrants(conf))
    assert authority.refusal(event("dcm", CLOUD_EVENTS, "rack.on")) is None
    assert "it is an event of racks" in authority.refusal(event("nova", OSLO, "rack.on"))


def test_a_plugin_may_reserve_types_for_its_own_driver(conf):
    class Reserving(Racks):
        reserved: ClassVar = ("rack.all",)

    authority = Authority(Dispatcher([("racks", Reserving())]), with_own_sources(ConfiguredGrants(conf)))
    for source, envelope in (("dcm", CLOUD_EVENTS), ("replay", CLOUD_EVENTS), ("files", OSLO)):
        assert "only the driver nats_jetstream makes this type" in authority.refusal(
            event(source, envelope, "rack.all")
        )


@pytest.mark.parametrize("declared", [{"drivers": "nats"}, {"envelopes": [5]}])
def test_a_declaration_that_is_no_collection_of_names_is_refused(declared):
    with pytest.raises(TypeError, match=r"'racks': (drivers|envelopes) is"):
        Dispatcher([("racks", type("Bad", (Racks,), declared)())])


class Mute(Source):
    """A driver that declares nothing."""

    start = ack = nack = stop = status = lambda self, *_: None


class Declaring(Mute):
    envelopes: ClassVar = (CLOUD_EVENTS,)
    event_types: ClassVar = ("rack.*", "kubernetes.*")


@pytest.fixture
def drivers(monkeypatch):
    """Installs drivers of a third party."""
    own = {"mute": Mute, "declaring": Declaring}
    monkeypatch.setattr(sources, "load_driver", lambda name: own.get(name) or load_driver(name))


def test_a_driver_that_declares_nothing_does_not_start_and_is_named_and_the_rest_runs(conf, drivers):
    configure(conf, files="replay", odd="mute")
    makers = sources.source_makers(conf, None)
    with pytest.raises(SourceError, match=r"the driver mute \(tests.unit.security.* declares no envelopes"):
        makers["odd"]()
    assert makers["files"]().name == "files"


def test_a_driver_of_a_third_party_brings_the_types_that_it_declares_but_not_reserved_ones(conf, drivers, dispatcher):
    configure(conf, racks="declaring")
    authority = Authority(Dispatcher([("racks", Racks())]), ConfiguredGrants(conf))
    assert authority.refusal(event("racks", CLOUD_EVENTS, "rack.on")) is None
    authority = Authority(dispatcher, ConfiguredGrants(conf))
    assert authority.refusal(event("racks", CLOUD_EVENTS, "kubernetes.pod.listed"))
    assert authority.refusal(event("racks", CLOUD_EVENTS, "kubernetes.pod.added"))


def test_a_source_that_no_configuration_names_brings_what_its_class_declares(conf, dispatcher):
    authority = make_authority(conf, dispatcher, {"here": InProcessSource("here")})
    assert authority.refusal(event("here", CLOUD_EVENTS, "dcm.status.vm")) is None
    reason = authority.refusal(event("here", CLOUD_EVENTS, "instance.delete.end"))
    assert "source here (driver InProcessSource) may not bring" in reason


@pytest.mark.parametrize("name", ["api", "replay"])
def test_no_source_has_the_name_of_events_that_no_driver_brings(conf, name):
    configure(conf, **{name: "kubernetes"})
    with pytest.raises(ConfigError, match=f"enabled_sources names '{name}'"):
        sources.source_makers(conf, None)


# The cycle, the quarantine and the way out of it


def test_an_unauthorised_event_is_quarantined_counted_and_logged_once_a_minute(store, authority, dispatcher, caplog):
    clock = [0.0]
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=authority, monotonic=lambda: clock[0]))
    for number, now in enumerate((0.0, 1.0, 59.0, 61.0)):
        clock[0] = now
        body = cloud_event("instance.delete.end", id=f"c-{number}")
        cycle.run(Batch(events=[read_body(body, source="dcm"), read_body(b"{}", source="dcm", number=number)]))
    assert cycle.stats.total(Outcome.QUARANTINED) == 8
    assert cycle.stats.unauthorised == {"dcm": 4}
    lines = [r.getMessage() for r in caplog.records if ": unauthorised: " in r.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("source dcm: unauthorised: source dcm (driver nats_jetstream) may not bring")


def test_replay_asks_again_and_succeeds_only_after_the_option_is_wider(conf, store, dispatcher):
    conf.set_override("event_types", ["instance.*"], group="source_nova")
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=make_authority(conf, dispatcher)))
    cycle.run(Batch(events=[read_body(json.dumps(NOVA).encode(), source="nova")]))
    (before,) = Quarantine(store).page()
    assert before["reason"].endswith("[source_nova] event_types leaves it out")
    again = replay_quarantined(
        store, dispatcher, Quarantine(store).events(), grants=ConfiguredGrants(conf), batch_size=9
    )
    assert again["quarantined"] == 1
    (kept,) = Quarantine(store).page()
    assert kept["reason"] == before["reason"]
    conf.clear_override("event_types", group="source_nova")
    replay_quarantined(store, dispatcher, Quarantine(store).events(), grants=ConfiguredGrants(conf), batch_size=9)
    (kept,) = Quarantine(store).page()
    assert kept["reason"].startswith("payload"), "the handler has seen it"


def test_a_replay_of_an_event_whose_source_is_configured_no_more_is_refused(conf, store, authority, dispatcher):
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=authority))
    cycle.run(Batch(events=[read_body(cloud_event("instance.delete.end"), source="dcm")]))
    configure(conf, nova="oslo_messaging")
    replay_quarantined(store, dispatcher, Quarantine(store).events(), grants=ConfiguredGrants(conf), batch_size=9)
    (kept,) = Quarantine(store).page()
    assert "source dcm is not in [engine] enabled_sources" in kept["reason"]


def test_the_api_asks_again_too(conf, store, authority, dispatcher):
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=authority))
    cycle.run(Batch(events=[read_body(json.dumps(NOVA).encode(), source="dcm")]))
    client = Client(make_app(Service(conf, store), dispatcher, grants=ConfiguredGrants(conf)))
    row = client.simulate_get("/v1/quarantine").json["quarantine"][0]
    assert client.simulate_post(f"/v1/quarantine/{row['id']}/replay").json["outcome"] == "quarantined"
    (kept,) = client.simulate_get("/v1/quarantine").json["quarantine"]
    assert "may not bring 'service.update' in the envelope oslo" in kept["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("event_type", ["kubernetes.pod.listed", "kubernetes.cluster.disconnected"])
def test_a_posted_event_cannot_speak_for_a_cluster(conf, store, dispatcher, event_type):
    client = Client(make_app(Service(conf, store), dispatcher))
    headers = {"Content-Type": "application/cloudevents+json"}
    for kind in (event_type, "kubernetes.pod.added"):
        body = cloud_event(kind, {**LISTED, "state": "disconnected"}, id=kind)
        answer = client.simulate_post("/v1/events", body=body, headers=headers)
        assert [e["outcome"] for e in answer.json["events"]] == ["quarantined"]
    reasons = [e["reason"] for e in client.simulate_get("/v1/quarantine").json["quarantine"]]
    assert all(reason.startswith("unauthorised: POST /v1/events may not bring") for reason in reasons)
    assert client.simulate_get("/v1/clusters").json["clusters"] == []


def test_a_recording_has_every_public_dialect_and_no_reserved_type(store, dispatcher):
    pod = {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
    documents = [json.dumps({"type": "ADDED", "object": pod}).encode(), cloud_event("kubernetes.pod.listed", LISTED)]
    events = [read_body(body, source="edge", number=n) for n, body in enumerate(documents)]
    counts = replay(store, dispatcher, events, batch_size=9)
    assert (counts["applied"], counts["quarantined"]) == (1, 1)
    (kept,) = Quarantine(store).page()
    assert kept["reason"].startswith("unauthorised: recording edge may not bring 'kubernetes.pod.listed'")
    assert Authority(dispatcher, recording).refusal(event("any", OSLO, "service.update")) is None


def test_parked_events_are_applied_although_this_process_knows_no_source(conf, store, authority, dispatcher):
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=authority))
    body = cloud_event("dcm.status.vm", {"id": "i-1", "status": "RUNNING"}, source="dcm/providers/p")
    cycle.run(Batch(events=[read_body(body, source="dcm")]))
    conf.set_override("enabled_sources", [], group="engine")
    client = Client(make_app(Service(conf, store), dispatcher))
    row = {"id": "i-1", "service_type": "vm", "provider_name": "p"}
    assert client.simulate_post("/v1/service_type_instances", json=row).status_code == 201
    other = Authority(dispatcher, with_own_sources(ConfiguredGrants(conf)))
    CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=other)).catch_up()
    assert client.simulate_get("/v1/service_type_instances/i-1").json["status"] == "RUNNING"


WATCH = {"type": "MODIFIED", "object": {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps(NOVA | {"timestamp": "2026-01-02 03:04:05.678901"}).encode(), None),
        (json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(NOVA)}).encode(), None),
        (cloud_event("dcm.vm", {"n": [1, None]}, subject="s", time="2026-01-02T03:04:05.5+02:00"), None),
        (b'{"a": "\\u00e9"}', {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}),
        (b"", {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}),
        (json.dumps(WATCH).encode(), None),
    ],
)
def test_the_text_of_an_event_is_read_to_the_same_event(body, headers):
    first = read_message(body, headers, source="x")
    assert first.undecodable is None
    again = read_body(text_of(first), source="x")
    for name in ("id", "type", "origin", "subject", "time", "envelope", "undecodable"):
        assert getattr(again, name) == getattr(first, name)
    assert again.data is first.data is None or again.read() == first.read()


def test_junk_types_do_not_fill_the_memory(authority):
    for _ in range(10_000):
        authority.refusal(event("dcm", CLOUD_EVENTS, "".join(random.choices(string.ascii_letters, k=12))))
    assert len(authority._decisions) <= 4096
    assert authority.refusal(event("dcm", CLOUD_EVENTS, "instance.delete.end"))
