# SPDX-License-Identifier: Apache-2.0
"""A leader that cannot commit does not renew its lease, and one that cannot work on the schema ends its lead."""

from __future__ import annotations

import logging
import threading

import pytest

from tests.waiting import deadline
from watcher_sync.engine.leadership import Heartbeat
from watcher_sync.exceptions import DatabaseUnavailable, SchemaMissing
from watcher_sync.storage.database.time_limits import CommitWatch


class _Lease:
    """A lease that counts its renewals."""

    name, seconds = "engine:g", 0.03

    def __init__(self) -> None:
        self.beats = 0
        self.renewed = threading.Event()
        self.schema_trouble = ""

    def beat(self) -> None:
        self.beats += 1
        self.renewed.set()

    def require_schema(self) -> None:
        if self.schema_trouble:
            raise SchemaMissing(self.schema_trouble)


def test_the_lease_is_not_renewed_while_a_commit_has_no_answer_and_again_when_it_has() -> None:
    lease, unanswered = _Lease(), [0.0]
    asked = threading.Semaphore(0)

    class Watch(CommitWatch):
        @property
        def unanswered_seconds(self) -> float:
            asked.release()
            return unanswered[0]

    heartbeat = Heartbeat(lease, lambda: None, Watch())  # type: ignore[arg-type]
    heartbeat.start()
    try:
        assert lease.renewed.wait(deadline(60))
        unanswered[0] = 1.0
        for _ in range(3):  # one round may be under way
            assert asked.acquire(timeout=deadline(60))
        beats = lease.beats
        for _ in range(5):
            assert asked.acquire(timeout=deadline(60))
        assert lease.beats <= beats + 1
        lease.renewed.clear()
        unanswered[0] = 0.0
        assert lease.renewed.wait(deadline(60))
    finally:
        heartbeat.stop()


def test_a_schema_of_another_release_ends_the_lead_once_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    lease, lost = _Lease(), threading.Semaphore(0)
    heartbeat = Heartbeat(lease, lost.release, CommitWatch())  # type: ignore[arg-type]
    caplog.set_level(logging.WARNING)
    heartbeat.start()
    try:
        assert lease.renewed.wait(deadline(60))
        assert not lost.acquire(blocking=False)
        lease.schema_trouble = "the database takes releases from revision 0099 on"
        assert lost.acquire(timeout=deadline(60))
        heartbeat.stop()
        assert not lost.acquire(blocking=False)
        assert [record.getMessage() for record in caplog.records] == [lease.schema_trouble]
    finally:
        heartbeat.stop()


def test_an_unexpected_error_does_not_end_the_renewals(caplog: pytest.LogCaptureFixture) -> None:
    lease, lost, errors = _Lease(), threading.Semaphore(0), [RuntimeError("not translated")]

    def beat() -> None:
        if errors:
            raise errors.pop()
        lease.renewed.set()

    lease.beat = beat  # type: ignore[method-assign]
    heartbeat = Heartbeat(lease, lost.release, CommitWatch())  # type: ignore[arg-type]
    heartbeat.start()
    try:
        assert lease.renewed.wait(deadline(60))
        assert not lost.acquire(blocking=False)
        assert "not translated" in caplog.text
    finally:
        heartbeat.stop()


@pytest.mark.parametrize("is_known", [True, False])
def test_an_outage_that_is_in_the_log_is_not_repeated_for_the_lease(
    caplog: pytest.LogCaptureFixture, is_known: bool
) -> None:
    asked = threading.Semaphore(0)

    class Lease(_Lease):
        def beat(self) -> None:
            asked.release()
            raise DatabaseUnavailable("refused")

    heartbeat = Heartbeat(Lease(), lambda: None, CommitWatch(), is_unavailable=lambda: is_known)  # type: ignore[arg-type]
    heartbeat.start()
    try:
        for _ in range(3):
            assert asked.acquire(timeout=deadline(60))
    finally:
        heartbeat.stop()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ([] if is_known else ["The lease engine:g cannot be renewed, retrying: refused"])
