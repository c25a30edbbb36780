# SPDX-License-Identifier: Apache-2.0
"""A failed rescue, resize or revert: the compute's exception has the request of the action, and names no instance."""

from __future__ import annotations

import datetime
import itertools

import pytest

from watcher_sync.extensions.openstack.handler.failures import MAX_FAILURES
from watcher_sync.model.changes import Outcome

REQUEST, OTHER = "req-1", "req-2"
HERE, THERE = "nova-compute:host1", "nova-compute:host2"
FAILURE = ("error", None, "InstanceNotRescuable", "cannot be rescued")
RUNNING = ("active", "rescuing", None, None)


@pytest.fixture
def exception(nova):
    return nova.exception


@pytest.fixture
def rescue(nova):
    """rescue(phase) -> the event of a rescue on host1."""

    def make(phase="start", at=5, request=REQUEST, **fields):
        fields = {"task_state": "rescuing"} | fields if phase == "start" else {"state": "rescued"} | fields
        return nova.instance(f"instance.rescue.{phase}", at=at, request_id=request, **fields)

    return make


@pytest.fixture
def known(nova, player):
    """A player that knows two hosts and an active instance on the first."""
    services = [nova.service("service.create", host, sent=0) for host in ("host1", "host2")]
    player.play(*services, nova.instance("instance.create.end", at=1))
    return player


def shown(snapshot, vm):
    found = snapshot.get("instance", vm)
    return (found.state, found.task_state, found.fault_type, found.fault_message)


def test_the_exception_of_the_request_of_an_unfinished_action_is_the_failure_of_its_instance(
    nova, known, rescue, exception
):
    assert shown(known.play(rescue()), nova.VM)[0] == "active"
    assert shown(known.play(exception()), nova.VM) == FAILURE
    assert ("instance", nova.VM) in known.doubtful


def test_an_exception_that_overtook_the_start_of_its_action_is_the_failure_as_well(nova, known, rescue, exception):
    before = known.play(exception())
    assert shown(before, nova.VM) == ("active", None, None, None)
    assert shown(known.play(rescue()), nova.VM) == FAILURE
    assert ("instance", nova.VM) in known.doubtful


def test_an_instance_whose_first_event_is_the_start_fails_too(nova, known, rescue, exception):
    known.play(exception(), rescue(uuid="new"))
    assert shown(known.model.snapshot(), "new") == FAILURE


def test_the_request_of_an_instance_is_that_of_its_unfinished_action_only(nova, known, rescue, exception):
    def request(*events):
        return known.play(*events).get("instance", nova.VM).request_id

    assert request() is None
    assert request(rescue()) == REQUEST
    assert request(rescue("end", 6)) is None
    assert request(rescue(at=7, request=OTHER)) == OTHER
    assert request(exception(9, request=OTHER)) is None


@pytest.mark.parametrize("action", ["resize_finish", "resize_revert"])
def test_the_end_of_a_resize_ends_its_request(nova, known, action):
    start = nova.instance(f"instance.{action}.start", at=5, request_id=REQUEST)
    assert known.play(start).get("instance", nova.VM).request_id == REQUEST
    end = nova.instance(f"instance.{action}.end", at=6, request_id=REQUEST)
    assert known.play(end).get("instance", nova.VM).request_id is None


def test_an_action_that_ended_does_not_fail_by_an_earlier_exception(nova, known, rescue, exception):
    for order in itertools.permutations([rescue(), rescue("end", 8), exception(6)]):
        assert shown(known.play(*order), nova.VM) == ("rescued", None, None, None)


def test_the_exception_of_another_request_fails_no_instance(nova, known, rescue, exception):
    assert known.play(rescue(), exception(request=OTHER)).get("instance", nova.VM).state == "active"
    assert known.play(exception(request=None)).get("instance", nova.VM).state == "active"
    assert known.outcomes[-1] is Outcome.IGNORED


def test_a_redelivered_exception_changes_nothing(nova, known, rescue, exception):
    failed = exception()
    before = list(known.play(rescue(), failed).dump("instance"))
    assert list(known.play(failed).dump("instance")) == before
    assert known.outcomes[-1] is Outcome.DUPLICATE


def test_a_later_event_of_the_instance_wins(nova, known, rescue, exception):
    known.play(rescue(), nova.instance("instance.reboot.end", at=9), exception())
    assert shown(known.model.snapshot(), nova.VM) == ("active", None, None, None)


def test_a_delayed_event_from_before_the_failure_does_not_undo_it(nova, known, rescue, exception):
    known.play(rescue(), exception(), nova.instance("instance.power_on.end", at=4))
    assert shown(known.model.snapshot(), nova.VM) == FAILURE


def test_a_deleted_instance_stays_deleted(nova, known, rescue, exception):
    gone = nova.instance("instance.delete.end", at=7, state="deleted", deleted_at="2026-01-01T12:00:07Z")
    assert known.play(rescue(), gone, exception(), rescue()).get("instance", nova.VM) is None


@pytest.mark.parametrize("kind", ["NotImplementedError", "UnexpectedTaskStateError", "InstanceNotFound"])
def test_an_exception_after_which_nova_writes_no_error_makes_its_instance_doubtful_only(
    nova, known, rescue, exception, kind
):
    known.play(rescue(), exception(kind=kind), rescue())
    assert shown(known.model.snapshot(), nova.VM)[0] == "active"
    assert known.outcomes[-2] is Outcome.IGNORED
    assert ("instance", nova.VM) in known.doubtful


def test_a_resize_fails_on_its_destination_before_it_begins_there(nova, known, exception):
    """The source tells the destination and the request; the ports of the server are bound there before it begins."""
    end = nova.instance("instance.resize.end", at=5, host="host2", task_state="resize_migrated", request_id=REQUEST)
    failed = exception(6, publisher=THERE, kind="PortBindingFailed", message="no")
    for order in [(end, failed), (failed, end)]:
        player = type(known)()
        player.play(nova.service("service.create", "host2", sent=0), nova.instance("instance.create.end", at=1))
        found = player.play(*order).get("instance", nova.VM)
        assert (found.state, found.host, found.source_host, found.fault_type) == (
            "error", "host2", "host1", "PortBindingFailed",
        )  # fmt: skip


def test_a_revert_fails_on_the_destination_after_its_audit_event(nova, known, exception):
    """The destination publishes nothing else of it: the source publishes the start, after the destination is done."""
    audit = nova.instance(
        "instance.exists", at=5, publisher=THERE, host="host2", state="resized", task_state="resize_reverting",
        request_id=REQUEST,
    )  # fmt: skip
    assert known.play(audit, exception(6, publisher=THERE)).get("instance", nova.VM).state == "error"


def test_an_audit_of_an_instance_without_a_revert_has_no_request(nova, known):
    assert known.play(nova.instance("instance.exists", at=5, request_id=REQUEST)).get("instance", nova.VM) is not None
    assert known.model.snapshot().get("instance", nova.VM).request_id is None


def test_a_resize_to_another_cell_has_no_request(nova, known):
    """Its source or its destination publishes a copy, and a conductor takes all of it back after a failure."""
    end = nova.instance("instance.resize.end", at=5, task_state="resize_migrated", request_id=REQUEST)
    start = nova.instance("instance.resize_finish.start", at=6, publisher=THERE, request_id=REQUEST)
    assert known.play(end, start).get("instance", nova.VM).request_id is None


def test_a_start_without_a_request_leaves_the_one_of_before(nova, known, rescue):
    assert known.play(rescue(), rescue(at=6, request=None)).get("instance", nova.VM).request_id == REQUEST
    without = nova.instance("instance.rescue.start", at=7)
    assert known.play(without).get("instance", nova.VM).request_id == REQUEST


def test_a_host_remembers_its_last_failures_in_any_order_of_arrival(nova, known, exception):
    failures = [exception(10 + n, request=f"req-{n}") for n in range(MAX_FAILURES + 2)]
    service = nova.service("service.create", "host1", sent=0)
    results = set()
    for events in (failures, failures[::-1], failures[3:] + failures[:5] + failures[1:4]):
        player = type(known)()
        node = player.play(service, *events).get("compute_node", "host1")
        results.add((tuple(node.failures), node.versions))
        assert max(map(len, node.versions)) <= 200
    ((requests, _),) = results
    assert requests == tuple(f"req-{n}" for n in range(2, MAX_FAILURES + 2))


def test_a_host_remembers_the_later_one_of_two_failures_of_a_request(nova, known, exception):
    first, second = exception(6, message="first"), exception(7, message="second")
    for order in [(first, second), (second, first)]:
        failures = known.play(*order).get("compute_node", "host1").failures
        assert failures[REQUEST]["message"] == "second"


def test_a_host_whose_name_is_used_again_has_no_failure_of_its_predecessor_in_any_order(nova, new_player, exception):
    first, gone, again = (
        nova.service(f"service.{what}", "host1", sent=at) for what, at in (("create", 0), ("delete", 7), ("create", 8))
    )
    old, new = exception(5, request=OTHER), exception(9)
    for order in itertools.permutations([old, gone, again, new, old]):
        if order.index(new) > order.index(again):  # the failure of an unknown host is not remembered
            node = new_player().play(first, *order).get("compute_node", "host1")
            assert list(node.failures) == [REQUEST], [event.type for event in order]


def test_the_failure_of_an_unknown_host_is_not_remembered(known, exception):
    snapshot = known.play(exception(publisher="nova-compute:new"), exception(publisher="nova-api:host1"))
    assert snapshot.get("compute_node", "new") is None
    assert known.outcomes[-2:] == [Outcome.IGNORED] * 2


def test_a_message_is_as_long_as_novas_api_shows_it(nova, known, rescue, exception):
    known.play(rescue(), exception(message="x" * 300))
    assert known.model.snapshot().get("instance", nova.VM).fault_message == "x" * 255


def test_the_exception_is_a_sign_of_life_of_its_host(known, rescue, exception):
    snapshot = known.play(rescue(), exception(6))
    assert snapshot.last_seen("compute_node", "host1") == datetime.datetime(2026, 1, 1, 12, 0, 6, tzinfo=datetime.UTC)
