# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud: are its histories Nova's, and does its account follow from what it published?"""

from __future__ import annotations

import collections
import datetime
import functools
import itertools
import json
import pathlib
from typing import Any

import pytest

from tests.simulated import SIMULATED
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.ledger import ANYTHING
from watcher_sync.testing.nova.cloud import CloudSimulator, Truth, pace, write_jsonl
from watcher_sync.testing.nova.notification_types import IGNORED, UPSERTS
from watcher_sync.testing.nova.notifications import DATA

pytestmark = pytest.mark.slow

Event = dict[str, Any]


@functools.cache
def ran(seed: int = 7, n: int = 12_000) -> tuple[list[Event], Truth]:
    cloud = CloudSimulator(seed=seed, hosts=20, instances=60)
    return cloud.history(n), cloud.reported()


def by_instance(history: list[Event]) -> dict[str, list[Event]]:
    """uuid -> its events, in the order of publication."""
    found: dict[str, list[Event]] = collections.defaultdict(list)
    for event in history:
        if event["event_type"].startswith("instance."):
            found[event["payload"][DATA]["uuid"]].append(event)
    return found


def test_one_seed_is_one_history() -> None:
    first, second = (CloudSimulator(seed=3, hosts=5, instances=10) for _ in range(2))
    assert json.dumps(first.history(2_000)) == json.dumps(second.history(2_000))
    assert first.truth() == second.truth()
    assert CloudSimulator(seed=4, hosts=5, instances=10).history(2_000) != ran(3, 2_000)[0]


def test_envelope_times_grow_strictly_and_message_ids_are_unique() -> None:
    history, _ = ran()
    times = [event["timestamp"] for event in history]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert len({event["message_id"] for event in history}) == len(history)


def test_all_that_can_happen_to_an_instance_does_happen() -> None:
    kinds = {event["event_type"] for event in ran(7, 60_000)[0]}
    told = {"instance.create.error", "instance.rebuild.error", "instance.delete.end", "service.delete"}
    told |= {"compute_task.build_instances.error", "compute.exception", "instance.live_migration_abort.end"}
    assert set(UPSERTS) - kinds == set()
    assert set(IGNORED) - {t for t in IGNORED if "crash_dump" in t} - kinds == set()
    assert told <= kinds
    assert {f"aggregate.{a}.end" for a in ("create", "delete", "add_host", "remove_host")} <= kinds


def test_updated_at_is_the_time_of_the_write_before_the_one_reported() -> None:
    checked = 0
    for events in by_instance(ran()[0]).values():
        writes = [event for event in events if event["event_type"] == "instance.update" and not of_tags(event)]
        assert {event["payload"][DATA]["updated_at"] for event in writes[:2]} <= {None}
        for before, event in itertools.pairwise(writes[1:]):
            assert event["payload"][DATA]["updated_at"] == second(before)
            checked += 1
    assert checked > 4_000


def test_an_event_that_saves_nothing_shows_what_was_read_before_another_write() -> None:
    stale: collections.Counter[str] = collections.Counter()
    for events in by_instance(ran(7, 60_000)[0]).values():
        locked = None
        for event in events:
            kind, data = event["event_type"], event["payload"][DATA]
            if kind in ("instance.lock", "instance.unlock"):
                locked = data["locked"]
            elif locked is not None and data["locked"] != locked and not of_update(event):
                stale[kind] += 1
    assert {"instance.volume_attach.end", "instance.exists", "instance.live_migration_post_dest.end"} <= stale.keys()
    saving = {t for t in UPSERTS if t not in SAVES_NOTHING and t not in ("instance.lock", "instance.unlock")}
    assert not saving & stale.keys() - {"instance.shutdown.end", "instance.live_migration_force_complete.end"}


SAVES_NOTHING = {
    "instance.exists",
    "instance.interface_attach.end",
    "instance.interface_detach.end",
    "instance.live_migration_post_dest.end",
    "instance.volume_attach.end",
    "instance.volume_detach.end",
    "instance.volume_swap.end",
}


def of_update(event: Event) -> bool:
    return str(event["event_type"]) == "instance.update"


def of_tags(event: Event) -> bool:
    return of_update(event) and str(event["publisher_id"]).startswith("nova-api:")


def second(event: Event) -> str:
    """The second of the publication, as a payload has times."""
    return str(event["timestamp"]).replace(" ", "T")[:19] + "Z"


def test_updated_at_is_no_later_than_the_publication() -> None:
    for event in ran()[0]:
        if event["event_type"].startswith("instance."):
            data = event["payload"][DATA]
            assert data["created_at"] <= (data["updated_at"] or data["created_at"]) <= second(event)


def test_events_of_one_instance_share_a_second() -> None:
    shared = 0
    for events in by_instance(ran()[0]).values():
        counts = collections.Counter(
            event["payload"][DATA]["updated_at"] for event in events if event["event_type"] in UPSERTS
        )
        shared += sum(count > 1 for time, count in counts.items() if time is not None)
    assert shared > 200


def test_an_instance_begins_with_building_and_nothing_but_late_words_follows_its_deletion() -> None:
    ended = 0
    for events in by_instance(ran()[0]).values():
        assert events[0]["event_type"] == "instance.update"
        assert events[0]["payload"][DATA]["state"] == "building"
        ends = [i for i, event in enumerate(events) if is_gone(event)]
        if ends:
            ended += 1
            late = {event["event_type"] for event in events[ends[0] + 1 :] if not of_tags(event)}
            assert late <= {"instance.shutdown.end", "instance.exists"}
    assert ended > 20


def is_gone(event: Event) -> bool:
    return event["event_type"] == "instance.delete.end" and event["payload"][DATA]["deleted_at"] is not None


LEGAL_BEFORE = {
    "instance.power_on.end": {"stopped", "shelved"},
    "instance.unpause.end": {"paused"},
    "instance.resume.end": {"suspended"},
    "instance.unrescue.end": {"rescued"},
    "instance.restore.end": {"soft-delete"},
    "instance.unshelve.end": {"shelved_offloaded"},
    "instance.shelve_offload.end": {"shelved"},
    "instance.resize_confirm.end": {"resized"},
    "instance.resize_revert.end": {"resized"},
    "instance.resize_finish.end": {"active"},
    "instance.pause.end": {"active"},
    "instance.live_migration_post_dest.end": {"active"},
}


def test_an_operation_begins_in_a_state_in_which_nova_allows_it() -> None:
    checked: set[str] = set()
    for events in by_instance(ran()[0]).values():
        resting = "building"
        for event in events:
            data, kind = event["payload"][DATA], event["event_type"]
            if kind in LEGAL_BEFORE:
                assert resting in LEGAL_BEFORE[kind], (kind, resting)
                checked.add(kind)
            if kind.endswith(".end") and kind in UPSERTS:
                resting = data["state"]
    assert checked == set(LEGAL_BEFORE)


def test_after_a_live_migration_the_source_still_tells_the_old_host() -> None:
    farewells = forced_late = 0
    for events in by_instance(ran()[0]).values():
        there = None
        for event in events:
            data, kind = event["payload"][DATA], event["event_type"]
            if kind == "instance.live_migration_post_dest.end":
                there = data["host"]
                assert event["publisher_id"] == f"nova-compute:{there}"
            elif kind == "instance.live_migration_post.end":
                farewells += 1
                assert data["host"] != there
                assert event["publisher_id"] == f"nova-compute:{data['host']}"
            elif kind == "instance.live_migration_force_complete.end" and there is not None:
                forced_late += data["host"] != there
                assert data["task_state"] == "migrating"
            elif kind.endswith(".start"):
                there = None
    assert farewells > 20
    assert forced_late > 5


def test_the_source_confirms_a_resize_and_the_instance_is_elsewhere() -> None:
    confirmed = 0
    for event in ran()[0]:
        if event["event_type"] == "instance.resize_confirm.end":
            confirmed += 1
            assert event["publisher_id"] != f"nova-compute:{event['payload'][DATA]['host']}"
    assert confirmed > 5


def test_the_truth_has_exactly_the_public_fields_of_each_kind() -> None:
    cloud = CloudSimulator(seed=7, hosts=20, instances=60)
    cloud.history(2_000)
    kinds = builtin_kinds()
    for found in (cloud.truth(), cloud.reported()):
        assert found.keys() == set(SIMULATED)
        for name, rows in found.items():
            assert rows, name
            for row in rows.values():
                assert set(row) == set(kinds[name].public), name


def test_what_is_reported_is_consistent_in_itself() -> None:
    told = ran()[1]
    placed = {row["host"] for row in told["instance"].values() if row["host"] is not ANYTHING} - {None}
    assert placed <= told["compute_node"].keys()
    for host, node in told["compute_node"].items():
        if node["gone"] or node["discovered"]:
            assert host in placed
            assert node["status"] is None
        else:
            assert node["status"] in ("enabled", "disabled")
    zones = {host: row["availability_zone"] for row in told["aggregate"].values() for host in row["hosts"]
             if row["availability_zone"]}  # fmt: skip
    for host, node in told["compute_node"].items():
        assert node["availability_zone"] == zones.get(host, node["service_zone"])


def test_what_is_reported_has_no_deleted_instance_and_all_others() -> None:
    history, told = ran()
    ended = {e["payload"][DATA]["uuid"] for e in history if is_gone(e)}
    assert told["instance"].keys() == by_instance(history).keys() - ended


def test_a_host_passes_through_all_that_can_become_of_it() -> None:
    cloud = CloudSimulator(seed=11, hosts=20, instances=60)
    seen: set[str] = set()
    for _ in range(60):
        cloud.history(500)
        for node in cloud.reported()["compute_node"].values():
            for name in ("gone", "discovered", "forced_down"):
                if node[name]:
                    seen.add(name)
            seen.add(str(node["status"]))
    assert seen == {"gone", "discovered", "forced_down", "enabled", "disabled", "None"}


def test_populate_makes_the_cloud_and_makes_it_once() -> None:
    cloud = CloudSimulator(seed=5, hosts=10, instances=40, failures=0.0, undeclared=0.0)
    assert sum(event["event_type"] == "instance.create.end" for event in cloud.populate()) == 40
    for found in (cloud.truth(), cloud.reported()):
        assert [row["state"] for row in found["instance"].values()] == ["active"] * 40
        assert len(found["compute_node"]) == 10
    assert list(cloud.populate()) == []


def test_without_start_events_hosts_are_seen_by_the_other_events() -> None:
    cloud = CloudSimulator(seed=5, hosts=5, instances=20, starts=False)
    last: dict[str, str] = {}
    for event in cloud.history(3_000):
        assert not event["event_type"].endswith(".start")
        binary, _, host = event["publisher_id"].partition(":")
        from_api = event["event_type"] in ("instance.update", "service.update", "service.delete")
        if binary == "nova-compute" and not from_api:
            last[host] = event["timestamp"]
    for host, node in cloud.reported()["compute_node"].items():
        heard = node["last_heard"]
        assert heard == datetime.datetime.fromisoformat(f"{last[host]}+00:00")


def test_a_host_of_an_older_release_tells_nothing_of_the_lock() -> None:
    cloud = CloudSimulator(seed=5, hosts=5, instances=20, legacy=1.0)
    history = cloud.history(3_000)
    told = [event for events in by_instance(history).values() for event in events]
    without = [event for event in told if "locked" not in event["payload"][DATA]]
    assert all(event["publisher_id"].startswith("nova-compute:") for event in without)
    assert any(event["event_type"] in UPSERTS for event in without)
    assert any(row["locked"] for row in cloud.reported()["instance"].values())


def test_an_instance_message_is_as_large_as_a_real_one() -> None:
    sizes = [len(json.dumps(event)) for event in ran()[0] if event["event_type"].startswith("instance.")]
    assert min(sizes) >= 1_700
    assert max(sizes) <= 4_500
    assert 2_500 <= sum(sizes) / len(sizes) <= 3_500


@pytest.mark.parametrize("form", ["bare", "oslo"])
def test_a_recording_has_one_event_a_line(form: str, tmp_path: pathlib.Path) -> None:
    history = ran()[0][:300]
    path = tmp_path / "history.jsonl"
    assert write_jsonl(path, history, form) == 300  # type: ignore[arg-type]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if form == "oslo":
        lines = [json.loads(line["oslo.message"]) for line in lines]
    assert all(line.items() >= event.items() for line, event in zip(lines, history, strict=True))


def test_paced_events_come_no_faster_than_the_rate() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    taken = list(pace(iter(ran()[0][:101]), 10.0, clock=lambda: now[0], sleep=sleep))
    assert len(taken) == 101
    assert now[0] == pytest.approx(10.0)


def test_an_aggregate_is_empty_when_it_is_deleted_and_has_no_later_event() -> None:
    gone: set[str] = set()
    for event in ran(7, 60_000)[0]:
        if event["event_type"].startswith("aggregate."):
            data = event["payload"][DATA]
            assert data["uuid"] not in gone
            if event["event_type"] == "aggregate.delete.end":
                assert data["hosts"] == []
                gone.add(data["uuid"])
    assert gone
