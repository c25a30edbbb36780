# SPDX-License-Identifier: Apache-2.0
"""A leader that cannot commit does not renew its lease."""

from __future__ import annotations

import threading

from watcher_sync.engine.leadership import Heartbeat


class _Lease:
    """A lease that counts its renewals."""

    name, seconds = "engine:g", 0.03

    def __init__(self) -> None:
        self.beats = 0
        self.renewed = threading.Event()

    def beat(self) -> None:
        self.beats += 1
        self.renewed.set()


def test_the_lease_is_not_renewed_while_a_commit_has_no_answer_and_again_when_it_has() -> None:
    lease, unanswered = _Lease(), [0.0]
    asked = threading.Semaphore(0)

    def unanswered_seconds() -> float:
        asked.release()
        return unanswered[0]

    heartbeat = Heartbeat(lease, lambda: None, unanswered_seconds)  # type: ignore[arg-type]
    heartbeat.start()
    try:
        assert lease.renewed.wait(5)
        unanswered[0] = 1.0
        for _ in range(3):  # one round may be under way
            assert asked.acquire(timeout=5)
        beats = lease.beats
        for _ in range(5):
            assert asked.acquire(timeout=5)
        assert lease.beats <= beats + 1
        lease.renewed.clear()
        unanswered[0] = 0.0
        assert lease.renewed.wait(5)
    finally:
        heartbeat.stop()
