# SPDX-License-Identifier: Apache-2.0
"""Operation leases: the right to change one entity's instance for a while.

A life-cycle operation and a sync's write take the same lease, so one of them is told who was first. The
holder says every few seconds that it lives; when it has been silent for the lease's time, the lease expires and
the next who asks has it. The token grows with every change of hands: what a holder writes it writes with
its token, and one that was deposed, asleep or cut off writes nothing any more.

A lease is held for a life-cycle operation as long as that takes, and for a sync's write for milliseconds: what
Kubernetes says is read before.

Used by any thread and any process; nothing is kept in memory.
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
"""What we ourselves hold leases for: writes of milliseconds."""


def retry_after(lease: LeaseRow) -> int:
    """Seconds after which it is worth asking again.

    A life-cycle operation may end sooner, or go on for longer; after this time its holder has at least had to
    say that it lives.
    """
    return 1 if lease.operation in (SYNC, REGISTER, DELETE) else max(1, math.ceil(lease.remaining))


class Operations:
    """What takes, keeps and ends the leases of one kind of entity.

    :param seconds: asked at each use: how long a holder may be silent.
    """

    def __init__(self, leases: OperationLeases, kind: str, seconds: Callable[[], float]) -> None:
        self.kind = kind
        self._leases = leases
        self._seconds = seconds

    def begin(self, entity_id: str, operation: str, holder: str, *, recorded: bool = True) -> LeaseRow:
        """Take the lease.

        :param operation: such as SCALE or SYNC; shown to whoever comes second.
        :param holder: who it is, fit to be shown.
        :param recorded: whether the history of operations tells of it.
        :raises OperationRunning: another holds it.
        :raises DatabaseUnavailable: when the database is away.
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
        """Who works on the entity now, or None."""
        lease = self._leases.read(self.kind, entity_id)
        return lease if lease is not None and lease.remaining > 0 else None

    def running_on(self, entity_ids: Collection[str]) -> dict[str, LeaseRow]:
        """entity -> who works on it now, for those of them that somebody works on."""
        return self._leases.running(self.kind, entity_ids)

    def heartbeat(self, entity_id: str, lease_id: str, token: int | None = None) -> LeaseRow:
        """Say that the holder lives; the lease's time begins anew.

        :raises StaleToken: the lease is not this holder's any more.
        """
        lease = self._leases.heartbeat(self.kind, entity_id, lease_id, token, self._seconds())
        if lease is None:
            raise self._stale(entity_id)
        return lease

    def end(self, entity_id: str, lease_id: str, token: int | None = None, *, failed: bool = False) -> None:
        """Give the lease back.

        :raises StaleToken: the lease is not this holder's any more.
        """
        if not self._leases.end(self.kind, entity_id, lease_id, token, FAILED if failed else COMPLETED):
            raise self._stale(entity_id)

    def verify_token(self, connection: sa.Connection, entity_id: str, token: int) -> None:
        """Hold a writer's token against the lease, inside the transaction that writes.

        :raises StaleToken: nothing may be written with this token.
        """
        if not self._leases.lock_token(connection, self.kind, entity_id, token):
            raise StaleToken(None)

    @contextlib.contextmanager
    def held(self, entity_id: str, operation: str, holder: str, *, forget: bool = False) -> Iterator[LeaseRow]:
        """Hold the lease for one short write, of which the history of operations does not tell.

        :param forget: the write, if it is made, ends the entity for ever, and nobody will ask for its lease again.
        :raises OperationRunning: another holds it.
        """
        lease = self.begin(entity_id, operation, holder, recorded=False)
        try:
            yield lease
            if forget:
                self._leases.forget(self.kind, entity_id, lease.id)
        finally:
            # Whoever took it over meanwhile keeps it.
            with contextlib.suppress(StaleToken):
                self.end(entity_id, lease.id, lease.token)

    def show(self, entity_id: str, operation_id: str) -> OperationRow | None:
        """One operation, whatever became of it."""
        return self._leases.operation(self.kind, entity_id, operation_id)

    def history(self, entity_id: str, *, after: int, limit: int) -> list[OperationRow]:
        """The operations in order.

        :param after: the token of the last one of the page before.
        """
        return self._leases.history(self.kind, entity_id, after=after, limit=limit)

    def _stale(self, entity_id: str) -> StaleToken:
        return StaleToken(self.running(entity_id))
