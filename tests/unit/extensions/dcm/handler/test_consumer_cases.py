# SPDX-License-Identifier: Apache-2.0
"""What DCM's own consumer accepts: any CloudEvents type, padded statuses, Go's zero time, leap seconds."""

from __future__ import annotations

import datetime
import json
from typing import Any

import msgspec
import pytest
from oslo_config import cfg

from tests.migrated import migrate
from tests.providers import EPOCH, Player, event
from watcher_sync.assembly.sources import ConfiguredGrants, make_authority
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.replay import replay_quarantined
from watcher_sync.conf import opts
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome
from watcher_sync.storage.database import database
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.dcm import publisher as dcm
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wire.envelopes import read_body

ZERO = "0001-01-01T00:00:00Z"
LEAP = datetime.datetime(2017, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def player() -> Player:
    return Player()


def of_type(event_type: str, **fields: Any) -> dict[str, Any]:
    return {**dcm.status(**fields), "type": event_type}


def with_timestamp(timestamp: str) -> dict[str, Any]:
    document = dcm.status()
    del document["time"]
    document["data"]["timestamp"] = timestamp
    return document


@pytest.mark.parametrize("event_type", ["com.example.status", "status", "io.kubevirt.vmi.phase", "dcm"])
def test_the_service_type_is_the_nats_subjects_whatever_the_cloud_events_type_says(event_type: str) -> None:
    player = Player(unknown_instance="create")
    document = of_type(event_type, service_type="storage", reported="RUNNING")
    assert player.play(event(document, sequence=1, channel="dcm.storage")) == [Outcome.APPLIED]
    row = player.get()
    assert (row.service_type, row.status, row.provider_name) == ("storage", "RUNNING", "kubevirt-1")


@pytest.mark.parametrize("channel", ["dcm.providers.kubevirt-1.vm", "dcm.providers.kubevirt-1.vm.instances.i-1.status"])
def test_a_nats_subject_with_the_provider_says_the_service_type_as_well(player: Player, channel: str) -> None:
    player.row()
    assert player.play(event(of_type("com.example.status"), sequence=1, channel=channel)) == [Outcome.APPLIED]


def test_an_event_of_another_type_is_still_the_owners_only(player: Player) -> None:
    player.row()
    player.row("i-2", provider_name="acm")
    player.play(event(sequence=1), event(dcm.status("i-2", provider="acm", event_id="2"), sequence=2))
    theft = of_type("com.example.status", instance_id="i-2")
    assert player.play(event(theft, sequence=3)) == [Outcome.QUARANTINED]
    assert player.reasons[0].startswith("unauthorised: source: 'dcm/providers/kubevirt-1' is bound to")


def test_without_a_nats_subject_another_type_is_ignored(player: Player) -> None:
    player.row()
    assert player.play(event(of_type("com.example.status"))) == [Outcome.IGNORED]


@pytest.mark.parametrize("event_type", ["dcm.agent.registered", "dcm.request.create"])
def test_what_the_handler_ignores_by_its_type_stays_ignored_under_every_subject(
    player: Player, event_type: str
) -> None:
    assert player.play(event(of_type(event_type), sequence=1)) == [Outcome.IGNORED]


@pytest.mark.parametrize("told", [" RUNNING", "running\n", "\t Running \r\n"])
def test_a_status_is_trimmed(player: Player, told: str) -> None:
    assert player.told(event(reported=told, sequence=1)).status == "RUNNING"
    assert Player(unknown_status="store").told(event(reported=" levitating ", sequence=1)).status == "LEVITATING"


@pytest.mark.parametrize("told", [" ", "\n\t"])
@pytest.mark.parametrize("policy", ["quarantine", "store"])
def test_a_status_of_blanks_is_none(told: str, policy: str) -> None:
    player = Player(unknown_status=policy)
    player.row()
    assert player.play(event(reported=told, sequence=1)) == [Outcome.QUARANTINED]
    assert player.reasons == ["data.status: empty"]


@pytest.mark.parametrize(
    "zero", [ZERO, "0001-01-01t00:00:00z", "0001-01-01T00:00:00+00:00", "0001-01-01T00:00:00.000Z"]
)
def test_gos_zero_time_counts_as_absent_in_time_and_in_data_timestamp(player: Player, zero: str) -> None:
    assert player.told(event(with_timestamp(zero), sequence=1)).status_updated_at is None
    assert player.told(event({**with_timestamp(zero), "time": zero}, sequence=2)).status_updated_at is None


def test_behind_gos_zero_time_the_timestamp_of_the_data_counts(player: Player) -> None:
    document = {**with_timestamp("2026-01-02T03:04:05Z"), "time": ZERO}
    told = player.told(event(document, sequence=1)).status_updated_at
    assert told == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize("text", ["2016-12-31T23:59:60Z", "2016-12-31t23:59:60z", "2016-12-31T15:59:60-08:00"])
def test_lower_case_t_and_z_and_second_60_are_times(player: Player, text: str) -> None:
    assert player.told(event({**dcm.status(), "time": text}, sequence=1)).status_updated_at == LEAP
    assert player.told(event(with_timestamp(text), sequence=2)).status_updated_at == LEAP


def test_a_timestamp_that_is_no_time_is_refused_by_name(player: Player) -> None:
    player.row()
    assert player.play(event(with_timestamp("2026-01-02T03:04:61Z"), sequence=1)) == [Outcome.QUARANTINED]
    assert "timestamp" in player.reasons[0]


# The whole cycle, with the sources' authority


@pytest.fixture
def conf(tmp_path: Any) -> Any:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    conf.set_override("enabled_sources", ["dcm", "edge"], group="engine")
    for name, driver in (("dcm", "nats_jetstream"), ("edge", "kubernetes")):
        opts.register_source(conf, name, [])
        conf.set_override("driver", driver, group=f"source_{name}")
    return conf


@pytest.fixture
def store(conf: Any) -> Any:
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


def brought(event_type: str, source: str = "dcm", channel: str = "dcm.vm") -> Event:
    body = json.dumps(of_type(event_type)).encode()
    return msgspec.structs.replace(read_body(body, source=source), channel=channel, sequence=(EPOCH, 1))


def reasons_of(conf: Any, store: Store, event: Event) -> list[str]:
    dispatcher = load_handlers(conf)
    CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=make_authority(conf, dispatcher))).run(
        Batch(events=[event])
    )
    return [row["reason"] for row in Quarantine(store).page()]


def test_the_cycle_applies_an_event_by_its_subject_alone(conf: Any, store: Store) -> None:
    dispatcher = load_handlers(conf)
    cycle = CommitCycle(store, store.load(), dispatcher, CommitOptions(authority=make_authority(conf, dispatcher)))
    cycle.run(Batch(events=[brought("com.example.status")]))
    assert (cycle.stats.total(Outcome.PARKED), Quarantine(store).page()) == (1, [])


def test_another_driver_brings_no_status_by_the_subject(conf: Any, store: Store) -> None:
    (reason,) = reasons_of(conf, store, brought("com.example.status", source="edge"))
    assert reason.startswith("unauthorised: source edge (driver kubernetes) may not bring 'dcm.vm'")


def test_a_type_of_another_dialect_is_refused_whatever_the_subject_says(conf: Any, store: Store) -> None:
    (reason,) = reasons_of(conf, store, brought("instance.delete.end"))
    assert reason.startswith("unauthorised: source dcm (driver nats_jetstream) may not bring 'instance.delete.end'")


def test_the_option_event_types_of_the_source_holds_for_the_subject_as_well(conf: Any, store: Store) -> None:
    conf.set_override("event_types", ["dcm.storage"], group="source_dcm")
    (reason,) = reasons_of(conf, store, brought("com.example.status"))
    assert reason.endswith("[source_dcm] event_types leaves it out")


def test_an_event_that_a_replay_takes_from_quarantine_keeps_its_subject(conf: Any, store: Store) -> None:
    conf.set_override("event_types", ["dcm.storage"], group="source_dcm")
    assert reasons_of(conf, store, brought("com.example.status"))
    conf.clear_override("event_types", group="source_dcm")
    counts = replay_quarantined(
        store, load_handlers(conf), Quarantine(store).events(), grants=ConfiguredGrants(conf), batch_size=9
    )
    assert (counts["parked"], counts["quarantined"]) == (1, 0)
