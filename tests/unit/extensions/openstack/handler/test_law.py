# SPDX-License-Identifier: Apache-2.0
"""The law: any permutation and duplication of a legal history ends in the same model."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

SOURCE, DESTINATION, API = "nova-compute:host1", "nova-compute:host2", "nova-api:host1"
A, B = "aaaa", "bbbb"


def resize_and_revert(nova):
    def large(event):
        return nova.put(event, "nova_object.data/flavor/nova_object.data/vcpus", 8)

    return [
        nova.service("service.create", "host1", sent=0),
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.update", at=2, task_state="resize_prep"),
        nova.instance("instance.update", at=3, task_state="resize_migrating", publisher=SOURCE),
        large(nova.instance("instance.update", at=4, host="host2", task_state="resize_finish", publisher=DESTINATION)),
        large(nova.instance("instance.resize_finish.end", at=5, host="host2", state="resized", publisher=DESTINATION)),
        large(nova.instance("instance.update", at=6, host="host2", state="resized", task_state="resize_reverting")),
        nova.instance("instance.resize_revert.end", at=8),
    ], {"instances": {nova.VM: ("host1", "active", None, 2)}, "nodes": {"host1": (False, False, "enabled", None)}}


def live_migration_with_force_complete(nova):
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.update", at=2, task_state="migrating"),
        nova.instance("instance.update", at=5, sent=5.1, host="host2", publisher=DESTINATION),
        nova.instance("instance.live_migration_post_dest.end", at=5, sent=5.2, host="host2", publisher=DESTINATION),
        nova.instance("instance.live_migration_post.end", at=2, sent=6),
        nova.instance("instance.live_migration_force_complete.end", at=2, sent=7, task_state="migrating"),
        nova.instance("instance.exists", at=5, sent=9, host="host2", publisher=DESTINATION),
    ], {"instances": {nova.VM: ("host2", "active", None, 2)}, "nodes": {"host2": (True, False, None, None)}}


def soft_delete_and_restore(nova):
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.lock", at=2, locked=True, publisher=API),
        nova.instance("instance.soft_delete.end", at=3, state="soft-delete"),
        nova.instance("instance.restore.end", at=4, locked=True),
        nova.instance("instance.unlock", at=5, publisher=API),
        nova.instance("instance.rescue.end", at=6, state="rescued", without=("locked", "locked_reason")),
    ], {"instances": {nova.VM: ("host1", "rescued", None, 2)}, "nodes": {"host1": (True, False, None, None)}}


def failure_and_deletion(nova):
    return [
        nova.instance("instance.create.error", at=1, state="error", host="host9"),
        nova.instance("instance.update", at=2, state="error"),
        nova.instance("instance.shutdown.end", at=3, task_state="deleting"),
        nova.instance("instance.update", at=4, sent=4.1, state="deleted"),
        nova.instance("instance.delete.end", at=4, sent=4.2, host=None, state="deleted"),
        nova.instance("instance.create.end", at=1, uuid=B),
        nova.instance("instance.volume_attach.error", at=5, uuid=B, state="active"),
    ], {"instances": {B: ("host1", "active", None, 2)}, "nodes": {"host1": (True, False, None, None)}}


def service_created_deleted_and_created_again(nova):
    return [
        nova.service("service.create", "host1", sent=1, disabled=True, disabled_reason="new"),
        nova.service("service.update", "host1", sent=2),
        nova.instance("instance.create.end", at=3),
        nova.service("service.delete", "host1", sent=4),
        nova.instance("instance.update", at=5, host="host2"),
        nova.service("service.create", "host1", sent=6, availability_zone="az1"),
        nova.service("service.update", "host1", sent=7, forced_down=True, availability_zone="az1"),
        nova.service("service.update", "host1", sent=8, binary="nova-scheduler", disabled=True),
    ], {
        "instances": {nova.VM: ("host2", "active", None, 2)},
        "nodes": {"host1": (False, False, "enabled", None), "host2": (True, False, None, None)},
    }


def service_deleted_under_an_instance(nova):
    return [
        nova.service("service.create", "host1", sent=1, availability_zone="az1"),
        nova.service("service.create", "host2", sent=1),
        nova.instance("instance.create.end", at=2),
        nova.instance("instance.create.end", at=2, uuid=B, host="host2"),
        nova.service("service.delete", "host1", sent=3),
        nova.service("service.delete", "host2", sent=4),
        nova.instance("instance.delete.end", at=5, uuid=B, host="host2", state="deleted"),
    ], {"instances": {nova.VM: ("host1", "active", None, 2)}, "nodes": {"host1": (False, True, None, None)}}


def aggregate_moves(nova):
    return [
        nova.service("service.create", "host1", sent=0, availability_zone="own"),
        nova.instance("instance.create.end", at=1, host="host2"),
        nova.aggregate("aggregate.create.end", A, sent=2, hosts=[], zone="za"),
        nova.aggregate("aggregate.create.end", B, sent=2, hosts=[]),
        nova.aggregate("aggregate.add_host.end", A, sent=3, hosts=["host1"], zone="za"),
        nova.aggregate("aggregate.add_host.end", A, sent=4, hosts=["host1", "host2"], zone="za"),
        nova.aggregate("aggregate.remove_host.end", A, sent=5, hosts=["host1"], zone="za"),
        nova.aggregate("aggregate.add_host.end", B, sent=6, hosts=["host2"]),
        nova.aggregate("aggregate.update_metadata.end", B, sent=7, hosts=["host2"], zone="zb"),
        nova.aggregate("aggregate.remove_host.end", A, sent=8, hosts=[], zone="za"),
        nova.aggregate("aggregate.delete.end", A, sent=9, hosts=[], zone="za"),
    ], {
        "instances": {nova.VM: ("host2", "active", None, 2)},
        "nodes": {"host1": (False, False, "enabled", None), "host2": (True, False, None, "zb")},
    }


def hosts_join_at_once(nova):
    return [
        nova.service("service.create", "host1", sent=0),
        nova.aggregate("aggregate.create.end", A, sent=1, hosts=["host0"]),
        nova.aggregate("aggregate.add_host.end", A, sent=2, hosts=["host0", "host3"]),
        nova.aggregate("aggregate.add_host.end", A, sent=2.6, hosts=["host0", "host2"]),
        nova.aggregate("aggregate.add_host.end", A, sent=3.3, hosts=["host0", "host1"]),
        nova.aggregate("aggregate.update_metadata.end", A, sent=9, hosts=["host0", "host1", "host2"], zone="za"),
        nova.aggregate("aggregate.add_host.end", A, sent=9.1, hosts=["host0", "host4"], zone="za"),
    ], {"instances": {}, "nodes": {"host1": (False, False, "enabled", "za")}}


def failed_rescue(nova):
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.rescue.start", at=5, task_state="rescuing", request_id="req-1"),
        nova.instance("instance.update", at=5.5, state="error", task_state="rescuing"),
        nova.instance("instance.update", at=5.6, state="error"),
        nova.exception(7),
        nova.exception(8, request="req-x"),
    ], {nova.VM: ("host1", "error", None, "InstanceNotRescuable")}


def failed_finish_resize_and_hard_reboot(nova):
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance(
            "instance.resize.end", at=5, host="host2", task_state="resize_migrated", request_id="req-1"
        ),
        nova.instance(
            "instance.resize_finish.start", at=6, host="host2", task_state="resize_finish", publisher=DESTINATION,
            request_id="req-1",
        ),
        nova.exception(7, publisher=DESTINATION, kind="PortBindingFailed"),
        nova.instance("instance.reboot.end", at=9, host="host2", publisher=DESTINATION),
    ], {nova.VM: ("host2", "active", None, None)}  # fmt: skip


def failed_finish_resize(nova):
    return failed_finish_resize_and_hard_reboot(nova)[0][:4], {nova.VM: ("host2", "error", None, "PortBindingFailed")}


def failed_revert(nova):
    late = {"host": "host2", "state": "resized", "task_state": "resize_reverting", "request_id": "req-1"}
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.resize_finish.end", at=3, host="host2", state="resized", publisher=DESTINATION),
        nova.instance("instance.exists", at=5, publisher=DESTINATION, **late),
        nova.instance("instance.resize_revert.start", at=6, **late),
        nova.exception(7, kind="AllocationMoveFailed"),
    ], {nova.VM: ("host2", "error", None, "AllocationMoveFailed")}


def failed_rescue_that_is_repeated(nova):
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.rescue.start", at=5, task_state="rescuing", request_id="req-1"),
        nova.exception(6),
        nova.instance("instance.rescue.start", at=8, task_state="rescuing", request_id="req-2"),
        nova.instance("instance.rescue.end", at=9, state="rescued", request_id="req-2"),
    ], {nova.VM: ("host1", "rescued", None, None)}


FAILURES = [
    failed_rescue,
    failed_finish_resize_and_hard_reboot,
    failed_finish_resize,
    failed_revert,
    failed_rescue_that_is_repeated,
]
"""Histories with a failure that names no instance, on known hosts."""

HISTORIES = [
    resize_and_revert,
    live_migration_with_force_complete,
    soft_delete_and_restore,
    failure_and_deletion,
    service_created_deleted_and_created_again,
    service_deleted_under_an_instance,
    aggregate_moves,
    hosts_join_at_once,
]


def whole(snapshot):
    """All that a snapshot shows, the versions behind it, and what its indexes find; not the seq, which
    counts what came."""
    return {
        kind: [
            (document, snapshot.get(kind, document["id"]).versions, found(snapshot, declared, document))
            for document in snapshot.dump(kind)
        ]
        for kind, declared in snapshot.kinds.items()
    }


def found(snapshot, declared, document):
    """Whether each index finds the entity by each of its values."""
    return {
        (index, value): document["id"] in {entity.id for entity in snapshot.by(declared.name, index, value)}
        for index in declared.indexes
        for value in (document[index] if isinstance(document[index], list) else [document[index]])
        if value is not None
    }


def summary(snapshot):
    return {
        "instances": {i.id: (i.host, i.state, i.task_state, i.vcpus) for i in snapshot.all("instance")},
        "nodes": {n.id: (n.discovered, n.gone, n.status, n.availability_zone) for n in snapshot.all("compute_node")},
    }


@pytest.mark.parametrize("history", HISTORIES)
def test_the_history_in_order_ends_in_what_nova_would_show(nova, play, history):
    events, expected = history(nova)
    assert summary(play(*events)) == expected


@functools.cache
def in_order(nova, new_player, history):
    """The events of the history, and the model that they end in."""
    events, _ = history(nova)
    return events, whole(new_player().play(*events))


@pytest.mark.parametrize("history", HISTORIES)
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_any_permutation_and_duplication_in_any_batches_ends_in_the_same_model(nova, new_player, history, data):
    events, expected = in_order(nova, new_player, history)
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=5))
    order = data.draw(st.permutations([*range(len(events)), *again]))
    batch = data.draw(st.integers(1, len(order)))
    assert whole(new_player().play(*(events[i] for i in order), batch=batch)) == expected


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_histories_that_interleave_on_the_same_hosts_end_in_the_same_model(nova, new_player, data):
    chosen = data.draw(st.permutations(HISTORIES))[:3]
    events = []
    for number, history in enumerate(chosen):
        for event in history(nova)[0]:
            about = event.data["nova_object.data"]
            is_service = event.type.startswith("service")
            events.append(event if is_service else nova.put(event, "nova_object.data/uuid", f"{number}{about['uuid']}"))
    order = data.draw(st.permutations(range(len(events))))
    batch = data.draw(st.sampled_from([1, 3, len(events)]))
    expected = whole(new_player().play(*events))
    assert whole(new_player().play(*(events[i] for i in order), batch=batch)) == expected


@pytest.mark.parametrize("history", [live_migration_with_force_complete, soft_delete_and_restore])
def test_every_permutation_of_a_short_history_ends_in_the_same_model(nova, new_player, history):
    events = history(nova)[0][-6:]
    expected = whole(new_player().play(*events))
    for order in itertools.permutations(events):
        assert whole(new_player().play(*order, batch=4)) == expected


@pytest.mark.parametrize("history", FAILURES)
def test_every_permutation_and_duplication_of_a_failure_on_known_hosts_ends_in_novas_truth(nova, new_player, history):
    services = [nova.service("service.create", host, sent=0) for host in ("host1", "host2")]
    events, expected = history(nova)
    final = new_player().play(*services, *events)
    found = {i.id: (i.host, i.state, i.task_state, i.fault_type) for i in final.all("instance")}
    assert found == expected
    for order in itertools.permutations(events):
        again = new_player().play(*services, *order, *order[:2], batch=3)
        assert whole(again) == whole(final)
