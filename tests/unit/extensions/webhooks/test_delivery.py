# SPDX-License-Identifier: Apache-2.0
"""When changes are delivered, and what one delivery has."""

from __future__ import annotations

import pytest

from tests.unit.extensions.webhooks.driver import FAILED, HOUR, OK, Driver, vnf
from watcher_sync.extensions.webhooks.deliveries import Attempt

BUSY = Attempt(503, "HTTP 503", 0.1, retry_after=600.0)


@pytest.fixture
def driver():
    """An instance with one subscription; the interval is 60 s."""
    driver = Driver()
    driver.log.write("instance", "i", state="building")
    driver.subscribe(min_notify_interval=60.0)
    driver.step()
    return driver


def write(driver, *states):
    for state in states:
        driver.log.write("instance", "i", state=state)


def states_told(driver, name="s"):
    bodies = driver.receivers[name].bodies
    return [d["status"]["state"] for body in bodies for d in body["resource-changes"]["modified"]]


def test_what_was_before_the_subscription_is_not_delivered(driver):
    driver.run(600)
    assert driver.receivers["s"].bodies == []


def test_the_first_change_is_delivered_at_once(driver):
    write(driver, "active")
    driver.step()
    assert states_told(driver) == ["active"]


def test_the_changes_of_an_interval_are_one_delivery_at_its_end(driver):
    write(driver, "active")
    driver.step()
    for state in ("paused", "active", "stopped"):
        write(driver, state)
        driver.run(10)
    assert states_told(driver) == ["active"]
    driver.run(29)
    assert states_told(driver) == ["active"]
    driver.run(1)
    assert states_told(driver) == ["active", "stopped"]


def test_after_a_quiet_interval_the_next_change_is_delivered_at_once(driver):
    write(driver, "active")
    driver.run(60)
    write(driver, "stopped")
    driver.step()
    assert states_told(driver) == ["active", "stopped"]


def test_created_and_deleted_within_an_interval_cancels_out():
    driver = vnf()
    driver.log.write("pod", "first", owner_uid="d")
    driver.step()
    driver.log.write("pod", "p", owner_uid="d")
    driver.step()
    driver.log.delete("pod", "p")
    driver.run(600)
    assert driver.receivers["s"].ids_by_change() == [(["first"], [], [])]


def test_a_change_that_is_taken_back_is_not_delivered_and_the_chain_goes_on(driver):
    write(driver, "active")
    driver.step()
    write(driver, "stopped", "active")
    driver.run(120)
    write(driver, "stopped")
    driver.step()
    assert states_told(driver) == ["active", "stopped"]
    first, second = driver.receivers["s"].bodies
    assert second["previous-sequence"] == first["sequence"]


def test_what_cancelled_out_is_not_read_again_by_the_next_worker(driver):
    write(driver, "active")
    driver.step()
    write(driver, "stopped")
    driver.step()
    write(driver, "active")
    driver.planner.add_rows([], {})
    driver.follow()
    driver.time.monotonic += 60
    driver.write(checkpoint=False)
    driver.restart()
    assert driver.progress().held_since == driver.log.head + 1
    driver.run(600)
    assert states_told(driver) == ["active"]
    assert driver.progress().held_since is None


def test_changes_that_cancelled_out_during_a_delivery_leave_nothing_behind(driver):
    driver.put(min_notify_interval=0.0)
    driver.step()
    write(driver, "active")
    driver.follow()
    driver.write()
    write(driver, "paused", "active")
    driver.follow()
    driver.send()
    driver.run(10)
    assert states_told(driver) == ["active"]
    assert driver.progress().behind_since is None


def test_arrays_are_never_null(driver):
    write(driver, "active")
    driver.step()
    assert driver.receivers["s"].bodies[0]["resource-changes"]["created"] == []
    assert driver.receivers["s"].bodies[0]["resource-changes"]["deleted"] == []


def test_one_delivery_is_under_way_at_a_time_and_the_next_has_all_that_came_meanwhile(driver):
    driver.put(min_notify_interval=0.0)
    driver.step()
    write(driver, "active")
    driver.follow()
    driver.write()
    write(driver, "paused", "stopped")
    driver.follow()
    driver.write()
    assert len(driver.under_way) == 1
    driver.send()
    driver.step()
    assert states_told(driver) == ["active", "stopped"]


def test_a_delivery_is_not_sent_before_it_is_written(driver):
    write(driver, "active")
    driver.follow()
    driver.planner.plan()
    writes, planned = driver.planner.take_writes(checkpoint=True)
    driver.planner.restore(writes, planned)
    assert driver.planner.take_due() == []
    again, planned_again = driver.planner.take_writes(checkpoint=True)
    assert again.planned == writes.planned
    assert planned_again == planned


@pytest.mark.parametrize("checkpoint", [True, False])
def test_changes_within_an_interval_survive_a_restart(driver, checkpoint):
    write(driver, "active")
    driver.step()
    write(driver, "stopped")
    driver.follow()
    driver.write(checkpoint=checkpoint)
    driver.restart()
    driver.run(61)
    assert states_told(driver) == ["active", "stopped"]


def test_the_interval_holds_over_a_restart(driver):
    write(driver, "active")
    driver.step()
    write(driver, "stopped")
    driver.step()
    driver.restart()
    driver.run(59)
    assert states_told(driver) == ["active"]
    driver.run(1)
    assert states_told(driver) == ["active", "stopped"]


def test_changes_while_no_worker_ran_are_delivered(driver):
    write(driver, "active")
    driver.restart()
    driver.step()
    assert states_told(driver) == ["active"]


def test_a_shorter_interval_applies_at_once(driver):
    driver.put(min_notify_interval=3600.0)
    driver.step()
    write(driver, "active")
    driver.step()
    write(driver, "stopped")
    driver.step()
    driver.put(min_notify_interval=10.0)
    driver.run(10)
    assert states_told(driver) == ["active", "stopped"]


def test_rows_that_arrive_before_the_pass_over_older_rows_begins_wait_for_it():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")

    def arrive():
        driver.log.write("pod", "q", owner_uid="d")
        driver.follow()
        driver.write()
        driver.before_reading = lambda: None

    driver.before_reading = arrive
    driver.restart()
    assert driver.states() == []
    driver.step()
    assert driver.receivers["s"].ids_by_change() == [(["p", "q"], [], [])]


def test_a_checkpoint_within_a_pass_loses_nothing_if_the_worker_then_stops(driver):
    write(driver, "stopped")
    driver.log.write("instance", "other", state="active")
    driver.log.write("instance", "other", state="stopped")

    class Stop(Exception):
        pass

    def stop():
        driver.write(checkpoint=True)
        raise Stop

    driver.while_reading = stop
    with pytest.raises(Stop):
        driver.restart()
    driver.while_reading = lambda: None
    driver.restart()
    driver.step()
    assert states_told(driver) == ["stopped"]


def test_a_replica_behind_the_worker_before_delivers_nothing_older(driver):
    driver.put(min_notify_interval=0.0)
    write(driver, "active", "stopped")
    driver.step()
    driver.tables.set("s", replay_since=0)
    driver.restart(upto=2)
    driver.write()
    assert [each.delivery.sequence for each in driver.under_way] == [driver.log.head]
    driver.run(61)
    assert driver.receivers["s"].bodies[-1]["sequence"] == driver.log.head


def test_a_change_of_the_subscription_does_not_repeat_what_was_delivered(driver):
    write(driver, "active")
    driver.step()
    driver.put(metadata={"a": 1})
    driver.run(600)
    assert states_told(driver) == ["active"]
    write(driver, "stopped")
    driver.step()
    assert driver.receivers["s"].bodies[-1]["metadata"] == {"a": 1}


def test_replay_delivers_the_changes_after_a_sequence_again(driver):
    write(driver, "active")
    driver.run(60)
    write(driver, "stopped")
    driver.run(60)
    driver.tables.set("s", replay_since=1)
    driver.run(60)
    assert states_told(driver) == ["active", "stopped", "stopped"]
    assert driver.subscription().replay_since is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_replayed_change_that_is_taken_back_meanwhile_is_not_left_with_the_receiver(driver, is_restarted):
    write(driver, "active")
    driver.step()
    driver.tables.set("s", replay_since=1)
    driver.step()
    write(driver, "building")
    driver.step()
    if is_restarted:
        driver.restart()
    driver.run(600)
    assert driver.receivers["s"].documents == driver.existing(driver.subscription())


@pytest.mark.parametrize("since", [0, 3, 4, 1000])
def test_replay_never_loses_what_is_not_delivered_yet(driver, since):
    write(driver, "active")
    driver.step()
    write(driver, "paused", "stopped")
    driver.step()
    driver.tables.set("s", replay_since=since)
    driver.step()
    write(driver, "active")
    driver.run(30)
    write(driver, "error")
    driver.run(600)
    assert driver.receivers["s"].documents == driver.existing(driver.subscription())


def test_a_replay_that_was_asked_for_while_a_delivery_fails_survives_a_restart(driver):
    driver.put(min_notify_interval=0.0)
    driver.step()
    write(driver, "active")
    driver.step()
    driver.answers["s"] = lambda _: FAILED
    write(driver, "stopped")
    driver.step()
    driver.tables.set("s", replay_since=0)
    driver.step()
    driver.restart()
    driver.answers["s"] = lambda _: OK
    driver.run(10)
    changes = driver.receivers["s"].ids_by_change()
    assert changes == [([], [], ["i"]), ([], [], ["i"]), (["i"], [], [])]


def test_a_removed_subscription_receives_nothing_that_was_planned(driver):
    write(driver, "active")
    driver.follow()
    driver.planner.plan()
    driver.tables.set("s", state="deleted")
    driver.read_registry()
    driver.write()
    assert driver.under_way == []
    assert len(driver.planner) == 0


def test_a_delivery_that_was_never_sent_is_due_at_once_whatever_clock_planned_it(driver):
    driver.time.ahead = HOUR
    driver.log.write("instance", "i", name="new")
    driver.follow()
    driver.write()
    driver.time.ahead = 0.0
    driver.restart()
    driver.step()
    assert driver.receivers["s"].ids_by_change() == [([], [], ["i"])]


@pytest.mark.parametrize("ahead", [HOUR, 0.0, -HOUR])
@pytest.mark.parametrize(("attempt", "seconds"), [(FAILED, 5.0), (BUSY, 600.0)])
def test_a_wait_is_never_longer_than_its_schedule_whatever_clock_stored_it(driver, attempt, seconds, ahead):
    driver.time.ahead = ahead
    driver.answers["s"] = lambda _: attempt
    driver.log.write("instance", "i", name="new")
    driver.step()
    driver.answers["s"] = lambda _: OK
    driver.time.ahead = 0.0
    driver.restart()
    if ahead >= 0:
        driver.run(seconds - 1)
        assert driver.receivers["s"].bodies == []
    driver.run(1)
    assert driver.receivers["s"].ids_by_change() == [([], [], ["i"])]
