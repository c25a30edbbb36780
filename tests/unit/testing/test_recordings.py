# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud publishes what a real Nova published: types, order, publishers, states and stale fields.

The recordings are histories of a real Nova, one notification a line. WATCHER_SYNC_RECORDINGS names their folder.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import os
import pathlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from watcher_sync.testing.nova import move_operations, notifications, server_operations
from watcher_sync.testing.nova.control_plane import ControlPlane, Steps
from watcher_sync.testing.nova.database import Host, Server
from watcher_sync.testing.nova.notifications import DATA

pytestmark = pytest.mark.slow

Event = dict[str, Any]
FLAVOR = {**notifications.flavor()[DATA], "name": "m1.small", "flavorid": "2"}


class Stage:
    """Two hosts and one server, on which operations run one after the other."""

    def __init__(self, *, updates: bool) -> None:
        start = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
        self.plane = ControlPlane(rng=random.Random(4), start=start, notify_on_state_change=updates)
        for name in ("one", "other"):
            host = Host(name)
            host.registered = True
            self.plane.hosts.append(host)
        self.server = self._server()
        self.events: list[Event] = []

    def run(self, steps: Steps) -> None:
        for step in steps:
            self.plane.now += int(step * 1e6) if isinstance(step, float) else 1_000
            if not isinstance(step, float):
                self.events.append(step)
        self.plane.now += 2_000_000

    def force_down(self) -> None:
        for host in self.plane.hosts:
            if host is self.server.host:
                host.forced_down = True

    def _server(self) -> Server:
        record = {
            **notifications.instance_record(), "uuid": self.plane.new_id(), "host": None, "node": None,
            "state": "building", "task_state": "scheduling", "power_state": "pending", "updated_at": None,
            "launched_at": None, "ip_addresses": [], "flavor": {**FLAVOR, "name": "m1.tiny", "flavorid": "1"},
        }  # fmt: skip
        server = Server(record)
        self.plane.servers.append(server)
        return server


def boot(stage: Stage, fails: str | None = None) -> None:
    stage.run(move_operations.boot(stage.plane, stage.server, fails=fails))


def act(stage: Stage, *actions: str) -> None:
    for action in actions:
        (what,) = (a for a in server_operations.ACTS if a.action == action)
        stage.run(server_operations.act(stage.plane, stage.server, what))


def rebuild(stage: Stage, *, fails: bool = False) -> None:
    stage.run(server_operations.rebuild(stage.plane, stage.server, fails=fails))


def lock(stage: Stage) -> Steps:
    copy = stage.plane.read(stage.server)
    yield from copy.save(locked=True)
    yield copy.publish("instance.lock", "nova-api:controller-0")


def unlock(stage: Stage) -> Steps:
    copy = stage.plane.read(stage.server)
    yield from copy.save(locked=False)
    yield copy.publish("instance.unlock", "nova-api:controller-0")


def rename(stage: Stage) -> Steps:
    yield from stage.plane.read(stage.server).save(display_name="renamed")


def life(stage: Stage) -> None:
    boot(stage)
    act(stage, "power_off", "power_on", "pause", "unpause", "suspend", "resume")
    stage.run(lock(stage))
    stage.run(unlock(stage))
    act(stage, "reboot")
    stage.run(rename(stage))
    rebuild(stage)


def evacuated(stage: Stage) -> None:
    boot(stage)
    stage.force_down()
    stage.run(move_operations.evacuate(stage.plane, stage.server))


def evacuation_finds_no_host(stage: Stage) -> None:
    boot(stage)
    for host in stage.plane.hosts:
        host.forced_down = True
    stage.run(move_operations.evacuate(stage.plane, stage.server))


def no_valid_host(stage: Stage) -> None:
    for host in stage.plane.hosts:
        host.forced_down = True
    boot(stage)


def delete(stage: Stage, *, fails: bool = False) -> None:
    stage.run(server_operations.delete(stage.plane, stage.server, fails=fails))


def deleted(stage: Stage) -> None:
    life(stage)
    delete(stage)


def delete_fails_in_placement(stage: Stage) -> None:
    boot(stage)
    delete(stage, fails=True)


def delete_fails_while_host_down(stage: Stage) -> None:
    boot(stage)
    stage.force_down()
    delete(stage, fails=True)


def live_migration(stage: Stage, ends: str) -> None:
    boot(stage)
    stage.run(move_operations.live_migrate(stage.plane, stage.server, ends=ends))


def resize(stage: Stage, ends: str) -> None:
    boot(stage)
    stage.run(move_operations.resize(stage.plane, stage.server, FLAVOR, ends=ends))


def shelved(stage: Stage) -> None:
    boot(stage)
    stage.run(server_operations.shelve(stage.plane, stage.server, offload=False))


def shelve_offloaded(stage: Stage) -> None:
    shelved(stage)
    stage.run(server_operations.shelve_offload(stage.plane, stage.server))


def unshelved(stage: Stage) -> None:
    shelve_offloaded(stage)
    stage.run(server_operations.unshelve(stage.plane, stage.server))


def booted_and(stage: Stage, *actions: str) -> None:
    boot(stage)
    act(stage, *actions)


def rebuild_fails(stage: Stage) -> None:
    boot(stage)
    rebuild(stage, fails=True)


def locked_while_volume_attaches(stage: Stage) -> None:
    boot(stage)
    copy = stage.plane.read(stage.server)
    host = stage.server.host
    assert host is not None
    stage.events.append(copy.publish("instance.volume_attach.start", host, volume_id="v"))
    stage.run(lock(stage))
    stage.events.append(copy.publish("instance.volume_attach.end", host, volume_id="v"))


SCENES: dict[str, Callable[[Stage], None]] = {
    "build_fails_everywhere-default": functools.partial(boot, fails="everywhere"),
    "delete_fails_in_placement-updates": delete_fails_in_placement,
    "delete_fails_while_host_down-default": delete_fails_while_host_down,
    "deleted-default": deleted,
    "evacuated_active-default": evacuated,
    "evacuation_finds_no_host-default": evacuation_finds_no_host,
    "life-default": life,
    "life-updates": life,
    "live_migrated-default": functools.partial(live_migration, ends="done"),
    "live_migration_forced-default": functools.partial(live_migration, ends="forced"),
    "live_migration_rolled_back-updates": functools.partial(live_migration, ends="rolled_back"),
    "locked_while_volume_attaches-default": locked_while_volume_attaches,
    "no_valid_host-default": no_valid_host,
    "rebuild_fails-default": rebuild_fails,
    "rescheduled-updates": functools.partial(boot, fails="once"),
    "resize_confirmed-updates": functools.partial(resize, ends="confirmed"),
    "resize_finish_fails-default": functools.partial(resize, ends="fails"),
    "resized-default": functools.partial(resize, ends="confirmed"),
    "restored-default": lambda stage: booted_and(stage, "soft_delete", "restore"),
    "shelve_offloaded-default": shelve_offloaded,
    "shelved-default": shelved,
    "soft_deleted-updates": lambda stage: booted_and(stage, "soft_delete"),
    "unshelved-updates": unshelved,
}


class Fact(NamedTuple):
    """What one event shows, with hosts named by the order in which they appear."""

    event_type: str
    publisher: str
    host: str | None
    state: str
    task_state: str | None
    locked: bool
    deleted: bool
    terminated: bool
    flavor: str


def facts(events: Iterable[Event]) -> list[Fact]:
    """The events of instances; of the recorder's process only the events of computes name the right publisher."""
    names: dict[str, str] = {}
    found = []
    for event in events:
        kind, data = event["event_type"], event["payload"][DATA]
        if not kind.startswith("instance."):
            continue
        binary, _, machine = event["publisher_id"].partition(":")
        of_host = binary == "nova-compute" and kind != "instance.update" and "soft_delete" not in kind
        publisher = _named(names, machine) if of_host else binary
        host = data["host"] and _named(names, data["host"])
        found.append(Fact(
            kind, publisher, host, data["state"], data["task_state"], data["locked"],
            data["deleted_at"] is not None, data["terminated_at"] is not None, data["flavor"][DATA]["name"],
        ))  # fmt: skip
    return found


def _named(names: dict[str, str], machine: str) -> str:
    return names.setdefault(machine, f"host {len(names) + 1}")


def recording(name: str) -> list[Event]:
    folder = os.environ.get("WATCHER_SYNC_RECORDINGS")
    path = pathlib.Path(folder or "missing") / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip("no recordings of a real Nova; WATCHER_SYNC_RECORDINGS names their folder")
    return [json.loads(line) for line in path.read_text().splitlines()]


def simulated(name: str) -> list[Event]:
    stage = Stage(updates=name.endswith("-updates"))
    SCENES[name](stage)
    return stage.events


def without_updates(found: list[Fact]) -> list[Fact]:
    return [fact for fact in found if fact.event_type != "instance.update"]


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_simulated_events_are_those_of_a_real_nova_in_their_order(name: str) -> None:
    real, ours = without_updates(facts(recording(name))), without_updates(facts(simulated(name)))
    assert ours[: len(real)] == real


@pytest.mark.parametrize("name", [name for name in sorted(SCENES) if name.endswith("-updates")])
def test_each_simulated_instance_update_is_one_of_a_real_nova_in_its_order(name: str) -> None:
    real = iter(facts(recording(name)))
    for fact in facts(simulated(name)):
        assert fact in real, fact


@pytest.mark.parametrize("name", [name for name in sorted(SCENES) if name.endswith("-updates")])
def test_a_real_nova_also_reports_the_time_of_the_write_before(name: str) -> None:
    updates = [event for event in recording(name) if event["event_type"] == "instance.update"]
    for before, event in itertools.pairwise(updates[1:]):
        told = datetime.datetime.fromisoformat(event["payload"][DATA]["updated_at"]).replace(tzinfo=None)
        written = datetime.datetime.fromisoformat(before["timestamp"])
        assert abs((written - told).total_seconds()) < 1.6


@pytest.mark.parametrize("name", sorted(SCENES))
def test_an_update_shows_a_null_task_state_as_the_new_one(name: str) -> None:
    for events in (recording(name), simulated(name)):
        for change in _changes(events):
            assert change["old_task_state"] is not None or change["new_task_state"] is None


def _changes(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if event["event_type"] == "instance.update":
            yield event["payload"][DATA]["state_update"][DATA]
