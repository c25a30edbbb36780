# SPDX-License-Identifier: Apache-2.0
"""Operation leases: the right to change one entity's instance for a while.

A life-cycle operation and a sync's write take the same lease, so the second of them gets an error. The holder sends a
heartbeat every few seconds. Without a heartbeat for the lease's time, the lease expires, and the next caller gets it.
The token grows with every change of holder. A holder writes with its token, so a deposed, suspended or disconnected
holder can no longer write.

A life-cycle operation holds its lease for its whole duration, a sync's write for milliseconds: Kubernetes is read
before.

For any thread and any process; nothing is stored in memory.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Collection, Iterator

import sqlalchemy as sa

from watcher_sync.exceptions import OperationRunning, StaleToken
from watcher_sync.storage.operation_leases import (
    COMPLETED,
    FAILED,
    LeaseRequest,
    LeaseRow,
    OperationLeases,
    OperationRow,
)

__all__ = ["LeaseRow", "OperationRow", "Operations", "retry_after"]

SYNC, REGISTER, DELETE = "SYNC", "REGISTER", "DELETE"
"""Operations of watcher_sync itself: their leases last milliseconds."""


def retry_after(lease: LeaseRow) -> int:
    """Seconds after which the caller should retry.

    A life-cycle operation may end sooner, or go on for longer; after this time its holder must have
    sent a heartbeat.
    """
    return 1 if lease.operation in (SYNC, REGISTER, DELETE) else max(1, math.ceil(lease.remaining))


class Operations:
    """Takes, extends and ends the leases of one kind of entity.

    :param seconds: returns the seconds until a lease without heartbeat expires; called at each use.
    """

    def __init__(self, leases: OperationLeases, kind: str, seconds: Callable[[], float]) -> None:
        self.kind = kind
        self._leases = leases
        self._seconds = seconds

    def begin(self, entity_id: str, operation: str, holder: str, *, recorded: bool = True) -> LeaseRow:
        """Take the lease.

        :param operation: such as SCALE or SYNC; shown to the second caller.
        :param holder: who it is, fit to be shown.
        :param recorded: whether the history of operations contains it.
        :raises OperationRunning: another holds it.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        request = LeaseRequest(
            kind=self.kind,
            entity_id=entity_id,
            id=str(uuid.uuid4()),
            holder=holder,
            operation=operation,
            seconds=self._seconds(),
            recorded=recorded,
        )
        lease = self._leases.take(request)
        if lease.id != request.id:
            raise OperationRunning(lease)
        return lease

    def running(self, entity_id: str) -> LeaseRow | None:
        """The running lease of the entity, or None."""
        lease = self._leases.read(self.kind, entity_id)
        return lease if lease is not None and lease.remaining > 0 else None

    def running_on(self, entity_ids: Collection[str]) -> dict[str, LeaseRow]:
        """Entity id -> running lease, of those of these entities that have one."""
        return self._leases.running(self.kind, entity_ids)

    def heartbeat(self, entity_id: str, lease_id: str, token: int | None = None) -> LeaseRow:
        """Extend the lease: the holder is alive.

        :raises StaleToken: this holder no longer has the lease.
        """
        lease = self._leases.heartbeat(self.kind, entity_id, lease_id, token, self._seconds())
        if lease is None:
            raise self._stale(entity_id)
        return lease

    def end(self, entity_id: str, lease_id: str, token: int | None = None, *, failed: bool = False) -> None:
        """Give the lease back.

        :raises StaleToken: this holder no longer has the lease.
        """
        if not self._leases.end(self.kind, entity_id, lease_id, token, FAILED if failed else COMPLETED):
            raise self._stale(entity_id)

    def verify_token(self, connection: sa.Connection, entity_id: str, token: int) -> None:
        """Verify a writer's token against the lease, inside the transaction that writes.

        :raises StaleToken: nothing may be written with this token.
        """
        if not self._leases.lock_token(connection, self.kind, entity_id, token):
            raise StaleToken(None)

    @contextlib.contextmanager
    def held(self, entity_id: str, operation: str, holder: str, *, forget: bool = False) -> Iterator[LeaseRow]:
        """Hold the lease for one short write, which the history of operations does not contain.

        :param forget: the write deletes the entity, whose id is never used again: delete the lease, too.
        :raises OperationRunning: another holds it.
        """
        lease = self.begin(entity_id, operation, holder, recorded=False)
        try:
            yield lease
            if forget:
                self._leases.forget(self.kind, entity_id, lease.id)
        finally:
            # If another holder took it over meanwhile, it is theirs.
            with contextlib.suppress(StaleToken):
                self.end(entity_id, lease.id, lease.token)

    def show(self, entity_id: str, operation_id: str) -> OperationRow | None:
        """One operation, running or ended."""
        return self._leases.operation(self.kind, entity_id, operation_id)

    def history(self, entity_id: str, *, after: int, limit: int) -> list[OperationRow]:
        """The operations in order.

        :param after: the token of the last one of the page before.
        """
        return self._leases.history(self.kind, entity_id, after=after, limit=limit)

    def _stale(self, entity_id: str) -> StaleToken:
        return StaleToken(self.running(entity_id))
