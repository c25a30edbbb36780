# SPDX-License-Identifier: Apache-2.0
"""Receivers that fail, and the result for their deliveries and subscriptions."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tests.unit.extensions.webhooks.driver import BOX, DAY, FAILED, GONE_FOREVER, HOUR, OK, SECRET, Driver, vnf
from watcher_sync.extensions.webhooks.deliveries import Attempt, DeliverySettings
from watcher_sync.extensions.webhooks.secrets import SecretBox, new_key
from watcher_sync.extensions.webhooks.standard_webhooks import parse_secret
from watcher_sync.extensions.webhooks.subscription import AFTER_DEAD_SECONDS

SCHEDULE = [0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]


def two(settings=None, box=BOX):
    """An instance with the subscriptions ``s`` and ``other``."""
    driver = Driver(settings, box)
    driver.log.write("instance", "i", state="building")
    driver.subscribe()
    driver.subscribe(name="other")
    driver.step()
    return driver


@pytest.fixture
def driver():
    return two()


def write(driver, state):
    driver.log.write("instance", "i", state=state)


def failing(driver, attempt=FAILED, name="s"):
    """Have a receiver fail; return the times of the attempts and their deliveries."""
    made = []

    def answer(delivery):
        made.append((driver.time.monotonic, delivery))
        return attempt

    driver.answers[name] = answer
    return made


def agrees(driver, name="s"):
    return driver.receivers[name].documents == driver.existing(driver.subscription(name))


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_put_of_the_callback_starts_a_new_count_of_attempts(driver, takes_over):
    made = failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE[:5]) * 1.1)
    assert len(made) == 5
    driver.put(callback_url="https://new.example/hook")
    if takes_over:
        driver.restart()
        driver.time.monotonic += 100_000
    del made[:]
    driver.run(400)
    times = [time for time, _ in made]
    assert [round(after - before) for before, after in itertools.pairwise(times)] == [5, 300]


def test_a_failing_delivery_is_repeated_by_the_schedule_with_the_same_id_and_body(driver):
    made = failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE))
    times = [time for time, _ in made]
    assert [after - before for before, after in itertools.pairwise(times[:10])] == SCHEDULE[1:]
    assert len({(each.webhook_id, each.body) for _, each in made[:10]}) == 1


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 4.0), (1.0, 6.0)])
def test_the_delay_has_a_jitter_of_a_fifth(driver, chance, seconds):
    driver.chance = chance
    made = failing(driver)
    write(driver, "active")
    driver.run(10)
    assert made[1][0] - made[0][0] == pytest.approx(seconds)


def test_the_schedule_goes_on_after_a_restart(driver):
    made = failing(driver)
    write(driver, "active")
    driver.run(6)
    driver.restart()
    driver.run(298)
    assert len(made) == 2
    driver.run(1)
    assert len(made) == 3
    assert len(driver.tables.pending("s")[0].attempts) == 3
    assert len({(each.webhook_id, each.body) for _, each in made}) == 1


def test_retry_after_is_honoured(driver):
    made = failing(driver, Attempt(503, "HTTP 503", 0.1, retry_after=100.0))
    write(driver, "active")
    driver.run(99)
    assert len(made) == 1
    driver.run(1)
    assert len(made) == 2


def test_a_lost_answer_is_repeated_and_the_receiver_sees_the_same_id(driver):
    answers = [Attempt(0, "timed out", 15.0), OK]

    def answer(delivery):
        driver.receivers["s"].receive(delivery)
        return answers.pop(0)

    driver.answers["s"] = answer
    write(driver, "active")
    driver.follow()
    driver.write()
    driver.send()
    del driver.answers["s"]
    driver.run(10)
    assert len(driver.receivers["s"].ids) == 2
    assert len(driver.receivers["s"].bodies) == 1


def test_the_status_410_ends_the_subscription(driver):
    made = failing(driver, GONE_FOREVER)
    write(driver, "active")
    driver.step()
    assert (driver.subscription().state, driver.subscription().reason) == ("gone", "the callback answered 410")
    write(driver, "stopped")
    driver.run(10 * DAY)
    assert len(made) == 1
    assert agrees(driver, "other")


def test_after_a_day_of_failures_everything_arrives_and_the_others_never_waited(driver):
    failing(driver)
    for n in range(24):
        write(driver, ["active", "stopped", "paused"][n % 3])
        driver.step()
        assert agrees(driver, "other")
        driver.run(HOUR)
    assert driver.subscription().state == "active"
    del driver.answers["s"]
    driver.run(DAY)
    assert agrees(driver)
    assert driver.progress().failures == 0
    assert driver.progress().failing_since is None


def six_days_of_failures(driver):
    made = failing(driver)
    for n in range(6 * 24):
        write(driver, ["active", "stopped", "paused"][n % 3])
        driver.run(HOUR)
    return made


def test_after_five_days_of_failures_the_subscription_is_suspended_with_a_reason(driver):
    made = six_days_of_failures(driver)
    assert driver.subscription().state == "suspended"
    assert driver.subscription().reason.startswith("every attempt since 2026-01-01 12:16:40Z failed; the last one: ")
    assert made[-1][0] - made[0][0] >= 5 * DAY
    count = len(made)
    driver.run(10 * DAY)
    assert len(made) == count
    assert driver.subscription("other").state == "active"
    assert agrees(driver, "other")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_put_resumes_and_delivers_everything_that_came_while_suspended(driver, is_restarted):
    six_days_of_failures(driver)
    driver.log.delete("instance", "i")
    write(driver, "rescued")
    driver.step()
    del driver.answers["s"]
    if is_restarted:
        driver.restart()
    driver.put()
    driver.step()
    driver.run(10)
    assert driver.subscription().state == "active"
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_instance_that_was_deleted_while_suspended_ends_the_resumed_subscription(driver, is_restarted):
    six_days_of_failures(driver)
    driver.log.delete("instance", "i")
    driver.step()
    del driver.answers["s"]
    if is_restarted:
        driver.restart()
    driver.put()
    driver.run(10)
    assert driver.receivers["s"].bodies[-1]["state"] == "gone"
    assert driver.subscription().state == "gone"
    assert agrees(driver)


def test_a_dead_delivery_is_followed_by_one_with_all_resources(driver):
    failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE) + 1)
    assert sorted(driver.states()) == ["dead", "delivered"]
    del driver.answers["s"]
    driver.run(AFTER_DEAD_SECONDS)
    assert [body.get("resync") for body in driver.receivers["s"].bodies] == ["an earlier delivery was not accepted"]
    assert agrees(driver)


def test_the_changes_of_a_dead_delivery_survive_a_restart(driver):
    failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE) + 1)
    driver.restart()
    del driver.answers["s"]
    driver.run(AFTER_DEAD_SECONDS)
    assert agrees(driver)


def test_so_many_failures_suspend_if_the_option_says_so():
    driver = two(DeliverySettings(suspend_after_failures=3))
    made = failing(driver)
    write(driver, "active")
    driver.run(DAY)
    assert len(made) == 3
    assert driver.subscription().reason.startswith("3 attempts in sequence failed; the last one: HTTP 500")


def test_a_success_between_failures_begins_the_count_again():
    driver = two(DeliverySettings(suspend_after_failures=3))
    for state in ("active", "stopped"):
        failing(driver)
        write(driver, state)
        driver.run(10)
        del driver.answers["s"]
        driver.run(DAY)
    assert driver.subscription().state == "active"


def test_a_new_callback_gets_the_failing_delivery_at_once_and_its_failures_count_from_zero(driver):
    made = failing(driver)
    write(driver, "active")
    driver.run(4 * HOUR)
    before = len(made)
    driver.put(callback_url="https://new.example/hook")
    driver.step()
    assert len(made) == before + 1
    assert driver.progress().failures == 1
    assert driver.progress().failing_since == driver.time.now()
    assert len({each.webhook_id for _, each in made}) == 1


def test_a_put_wins_over_a_suspension_that_was_not_written_yet():
    driver = two(DeliverySettings(suspend_after_failures=1))
    failing(driver)
    write(driver, "active")
    driver.follow()
    driver.write()
    driver.send()
    write(driver, "stopped")
    driver.follow()
    driver.put()
    del driver.answers["s"]
    driver.step()
    driver.run(10)
    assert driver.subscription().state == "active"
    assert agrees(driver)


def test_secrets_that_no_key_decrypts_send_nothing_and_lose_nothing():
    driver = two(box=SecretBox([new_key()]))
    write(driver, "active")
    driver.add_test()
    driver.run(DAY)
    assert driver.receivers["s"].ids == []
    tests = [(each, state) for each, state in driver.tables.deliveries.values() if each.purpose == "test"]
    assert [state for _, state in tests] == ["dead"]
    assert "no key" in tests[0][0].attempts[0]["detail"]
    driver.box = BOX
    driver.restart()
    driver.run(10)
    assert agrees(driver)


def test_a_put_of_a_readable_secret_sends_what_waited():
    box = SecretBox([new_key()])
    driver = two(box=box)
    write(driver, "active")
    driver.run(10)
    driver.put(secrets=box.seal([SECRET]))
    driver.run(10)
    assert agrees(driver)


@pytest.mark.parametrize("attempt", [OK, FAILED])
def test_a_test_message_is_sent_once(driver, attempt):
    made = failing(driver, attempt)
    driver.add_test()
    driver.run(DAY)
    driver.restart()
    driver.run(DAY)
    assert [each.purpose for _, each in made] == ["test"]
    assert driver.states() == ["delivered" if attempt is OK else "dead"]
    assert driver.progress().failures == 0


def test_a_test_message_that_fails_does_not_move_what_a_suspended_subscription_waits_for(driver):
    six_days_of_failures(driver)
    held_since = driver.progress().held_since
    reason = driver.subscription().reason
    driver.tables.set("s")
    driver.add_test()
    driver.run(10)
    assert (driver.progress().held_since, driver.subscription().reason) == (held_since, reason)
    del driver.answers["s"]
    driver.put()
    driver.run(10)
    assert agrees(driver)


def test_a_test_message_leaves_the_schedule_of_a_failing_delivery_as_it_is(driver):
    failing(driver)
    write(driver, "active")
    driver.run(6)
    due = driver.progress().next_attempt_at
    driver.add_test()
    driver.step()
    assert driver.progress().next_attempt_at == due is not None


def test_a_suspended_subscription_sends_its_test_message_signed(driver):
    six_days_of_failures(driver)
    driver.restart()
    driver.tables.set("s")
    driver.add_test()
    driver.read_registry()
    driver.write()
    assert [list(outgoing.subscription.secrets) for outgoing in driver.under_way] == [
        [(parse_secret(SECRET.secret), None)]
    ]


def test_an_attempt_that_was_held_back_is_no_failure(driver):
    write(driver, "active")
    driver.follow()
    driver.write()
    mine = next(each for each in driver.under_way if each.subscription.id == "s")
    driver.planner.attempted(mine, Attempt(0, "", 0.0, not_sent=True))
    assert mine in driver.planner.take_due()
    assert driver.progress().failures == 0


def test_every_attempt_is_recorded_with_its_time_and_code(driver):
    failing(driver)
    write(driver, "active")
    driver.run(6)
    (delivery,) = driver.tables.pending("s")
    assert [(each["code"], each["detail"]) for each in delivery.attempts] == [(500, FAILED.detail)] * 2
    assert driver.progress().last_notify_status == 500
    assert driver.progress().last_notify_time == delivery.attempts[-1]["time"]
    assert msgspec.json.encode(delivery.attempts)


def test_what_a_dead_delivery_had_survives_a_restart_without_a_checkpoint(driver):
    made = failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE) - 1)
    assert len(made) == len(SCHEDULE) - 1
    driver.time.monotonic += 10
    driver.write(checkpoint=False)
    (last,) = driver.under_way
    driver.planner.attempted(last, FAILED)
    driver.write(checkpoint=False)
    assert driver.tables.pending("s") == []
    driver.restart()
    driver.answers.pop("s")
    driver.run(2 * DAY)
    assert agrees(driver)


def test_what_a_410_refused_is_delivered_after_a_put(driver):
    failing(driver, GONE_FOREVER)
    write(driver, "active")
    driver.step()
    assert driver.subscription().state == "gone"
    driver.answers.pop("s")
    driver.put(callback_url="https://new.example/hook")
    driver.read_registry()
    driver.run(DAY)
    assert agrees(driver)


@pytest.mark.parametrize("change", ["put", "callback", "replay"])
def test_what_the_subscriber_asks_for_after_a_dead_delivery_does_not_wait(driver, change):
    made = failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE))
    assert "dead" in driver.states()
    del driver.answers["s"]
    count = len(made)
    if change == "put":
        driver.put()
    elif change == "callback":
        driver.put(callback_url="https://new.example/hook")
    else:
        driver.tables.set("s", replay_since=0)
    driver.run(1)
    assert agrees(driver)
    assert len(made) == count


def test_a_subscription_that_is_suspended_with_its_dead_delivery_resumes_at_once():
    driver = two(DeliverySettings(suspend_after_failures=len(SCHEDULE)))
    failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE))
    assert driver.subscription().state == "suspended"
    del driver.answers["s"]
    driver.put()
    driver.run(1)
    assert agrees(driver)


def test_without_a_put_the_pause_after_a_dead_delivery_holds(driver):
    made = failing(driver)
    write(driver, "active")
    driver.run(sum(SCHEDULE))
    count = len(made)
    driver.tables.set("s")
    write(driver, "stopped")
    driver.run(AFTER_DEAD_SECONDS - 60)
    assert len(made) == count


@pytest.mark.parametrize("attempt", [GONE_FOREVER, FAILED])
def test_a_late_refusal_of_a_former_callback_says_nothing_about_the_present_one(driver, attempt):
    write(driver, "active")
    driver.follow()
    driver.write()
    (late,) = [each for each in driver.under_way if each.subscription.id == "s"]
    driver.under_way.remove(late)
    former = late.subscription.row.callback_url
    driver.put(callback_url="https://new.example/hook")
    driver.read_registry()
    driver.planner.attempted(late, attempt, former)
    driver.run(1)
    assert driver.subscription().state == "active"
    assert driver.progress().failures == 0
    assert agrees(driver)


def test_the_end_of_a_schedule_loses_no_replay_that_was_asked_for_meanwhile():
    driver = vnf(min_notify_interval=0.0)
    for phase in ("Pending", "Running", "Failed"):
        driver.log.write("pod", "p", owner_uid="d", phase=phase)
        driver.step()
    driver.answers["s"] = lambda _: FAILED
    driver.log.write("pod", "p", phase="Pending")
    driver.step()
    driver.tables.set("s", replay_since=1)
    driver.read_registry()
    for _ in range(9):
        driver.planner.plan()
        driver.time.monotonic = driver.planner.next_due()
        driver.write(checkpoint=False)
        driver.send()
        driver.write(checkpoint=False)
    assert driver.states()[-1] == "dead"
    assert driver.progress().held_since == 2


def test_what_a_refused_write_ended_before_has_ended():
    driver = vnf(min_notify_interval=0.0)
    driver.log.write("pod", "p", owner_uid="d", phase="Pending")
    driver.follow()
    driver.write()
    driver.send()
    driver.log.write("pod", "p", phase="Running")
    driver.follow()
    driver.planner.plan()
    writes, planned = driver.planner.take_writes(checkpoint=False)
    driver.planner.refused(writes, planned, "too large")
    driver.write()
    assert driver.states() == ["delivered"]


def test_a_lag_ends_with_a_pass_over_older_rows_that_finds_nothing():
    driver = vnf()
    row, progress = driver.tables.rows["s"]
    driver.tables.rows["s"] = (
        row, msgspec.structs.replace(progress, held_since=driver.log.head + 1, behind_since=driver.time.now())
    )  # fmt: skip
    driver.log.write("instance", "other", state="active")
    driver.restart()
    driver.step()
    assert driver.progress().behind_since is None
