# SPDX-License-Identifier: Apache-2.0
from watcher_sync.testing.deadlines import Deadline, current_slowness, deadline, processor_slowness


class Machine:
    """A clock and a load that the test sets."""

    def __init__(self):
        self.now = 0.0
        self.slowness = 1.0

    def deadline(self, seconds):
        return Deadline(seconds, clock=lambda: self.now, slowness=lambda: self.slowness)

    def pass_time(self, limit, seconds, step=1.0):
        for _ in range(int(seconds / step)):
            self.now += step
            if limit.is_over:
                return True
        return False


def test_an_idle_machine_has_the_seconds_that_were_said():
    machine = Machine()
    limit = machine.deadline(10)
    assert not machine.pass_time(limit, 9)
    assert machine.pass_time(limit, 1)


def test_a_machine_that_becomes_twice_as_slow_has_twice_as_long():
    machine = Machine()
    limit = machine.deadline(10)
    assert not machine.pass_time(limit, 5)
    machine.slowness = 2.0
    assert not machine.pass_time(limit, 9)
    assert machine.pass_time(limit, 1)


def test_a_pause_of_the_whole_machine_uses_up_five_seconds_at_most():
    machine = Machine()
    limit = machine.deadline(10)
    machine.now += 3600
    assert not limit.is_over


def test_this_machine_has_a_measure_and_no_deadline_is_shorter_than_said():
    assert processor_slowness() >= 1.0
    assert current_slowness() >= 1.0
    assert deadline(10) >= 10
