# SPDX-License-Identifier: Apache-2.0
"""The time of the database, when its clock leaps or this machine's clock is wrong."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from watcher_sync.storage.database.database_time import DatabaseTime

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
HOUR, DAY = 3600, 86_400


class Clocks:
    """A database's, this machine's, and the seconds that have passed."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.database_ahead = self.wall_ahead = 0.0
        self.time = DatabaseTime(
            sa.create_engine("sqlite://"),
            wall=lambda: self.at(self.wall_ahead),
            monotonic=lambda: self.passed,
            database_clock=lambda: self.at(self.database_ahead),
        )

    def at(self, ahead: float = 0.0) -> datetime.datetime:
        return NOON + datetime.timedelta(seconds=self.passed + ahead)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_between_readings_the_time_moves_with_the_monotonic_clock_and_no_wall_clock(clocks):
    assert clocks.time.read() == clocks.at()
    clocks.passed, clocks.wall_ahead = 100.0, HOUR
    assert clocks.time.now() == clocks.at()


@pytest.mark.parametrize("leap", [8 * DAY, HOUR, 61, -61, -HOUR])
def test_a_leap_of_the_database_is_doubtful_until_it_is_over_and_the_time_goes_on(clocks, leap):
    clocks.time.read()
    clocks.database_ahead = clocks.wall_ahead = leap
    for _ in range(5):
        clocks.passed += 600
        assert clocks.time.read() is None
        assert "the clock of the database leapt" in clocks.time.doubt
        assert clocks.time.now() == clocks.at()
    clocks.database_ahead = clocks.wall_ahead = 0
    assert clocks.time.read() == clocks.at()
    assert (clocks.time.doubt, clocks.time.leaps) == ("", 1)


def test_a_leap_that_lasts_an_hour_is_adopted(clocks):
    clocks.time.read()
    clocks.database_ahead = clocks.wall_ahead = 8 * DAY
    assert clocks.time.read() is None
    clocks.passed += HOUR - 1
    assert clocks.time.read() is None
    clocks.passed += 1
    assert clocks.time.read() == clocks.at(8 * DAY) == clocks.time.now()


def test_a_second_leap_begins_the_hour_again(clocks):
    clocks.time.read()
    for leap in (HOUR, DAY):
        clocks.database_ahead = clocks.wall_ahead = leap
        assert clocks.time.read() is None
        clocks.passed += HOUR - 1
        assert clocks.time.read() is None
    assert clocks.time.leaps == 2


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_wall_clock_that_disagrees_is_doubtful_for_a_day(clocks, ahead):
    clocks.wall_ahead = ahead
    assert clocks.time.read() is None
    assert "this machine's clock" in clocks.time.doubt
    clocks.passed += DAY - 1
    assert clocks.time.read() is None
    clocks.passed += 1
    assert clocks.time.read() == clocks.at()


def test_a_wall_clock_that_agrees_again_begins_the_day_again(clocks):
    clocks.wall_ahead = HOUR
    assert clocks.time.read() is None
    clocks.passed, clocks.wall_ahead = DAY - 1, 0
    assert clocks.time.read() == clocks.at()
    clocks.wall_ahead = HOUR
    assert clocks.time.read() is None
    clocks.passed += 60
    assert clocks.time.read() is None


def test_the_time_of_a_process_that_deletes_nothing_is_read_once_an_hour(clocks):
    clocks.wall_ahead = DAY
    clocks.time.refresh()
    assert clocks.time.now() == clocks.at()
    clocks.passed, clocks.database_ahead = HOUR - 1, 5
    clocks.time.refresh()
    assert clocks.time.now() == clocks.at()
    clocks.passed += 1
    clocks.time.refresh()
    assert clocks.time.now() == clocks.at(5)
    assert clocks.time.doubt == ""


def test_a_drift_below_a_minute_is_no_leap(clocks):
    for _ in range(100):
        clocks.passed += 600
        clocks.database_ahead += 30
        clocks.wall_ahead += 25
        if abs(clocks.database_ahead - clocks.wall_ahead) < 60:
            assert clocks.time.read() == clocks.at(clocks.database_ahead)


def test_before_the_first_reading_no_wall_clock_is_asked_either(clocks):
    clocks.wall_ahead = HOUR
    assert clocks.time.now() == clocks.at()
    clocks.passed = 100.0
    assert clocks.time.now() == clocks.at()
