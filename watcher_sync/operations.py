# SPDX-License-Identifier: Apache-2.0
"""Operation leases: the right to change one entity's instance for a while.

A life-cycle operation and a sync's write take the same lease, so the second of them gets an error. Without a heartbeat
for the lease's time, the lease expires, and the next caller gets it. The token grows with every change of holder. A
holder writes with its token, so a deposed, suspended or disconnected holder can no longer write.

A lease has an owner: a user of a project. :meth:`Operations.begin` returns a random secret, and the table stores its
digest. Every further call needs a :class:`Proof` of both. The token is public, and proves nothing.

For any thread and any process; nothing is stored in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import math
import secrets
import uuid
from collections.abc import Collection, Iterator

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import NoSuchOperation, OperationRunning, ProofRefused, StaleToken
from watcher_sync.storage.groups.operation_leases import (
    COMPLETED,
    LeaseRequest,
    LeaseRow,
    OperationLeases,
    OperationRow,
)

__all__ = ["LeaseRow", "OperationRow", "Operations", "Owner", "Proof", "TakenLease", "retry_after"]

SYNC, REGISTER, DELETE = "SYNC", "REGISTER", "DELETE"
"""Operations of watcher_sync itself: their leases last milliseconds."""

_SECRET_BYTES = 32


class Owner(msgspec.Struct, frozen=True):
    """The user that took a lease, in the project of the user's token."""

    user_id: str
    project_id: str | None


SERVICE = Owner("watcher-sync", None)
"""The owner of leases that a process of watcher_sync takes for itself."""


class Proof(msgspec.Struct, frozen=True):
    """What a caller presents to use a lease."""

    owner: Owner
    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Proof({self.owner!r})"


class TakenLease(LeaseRow, frozen=True, kw_only=True):
    """The lease as its taker gets it, once: with the secret."""

    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"TakenLease({self.kind} {self.entity_id}, {self.id}, {self.token})"

    @property
    def proof(self) -> Proof:
        """The proof of this lease."""
        return Proof(Owner(self.user_id or "", self.project_id), self.secret)


def retry_after(lease: LeaseRow) -> int:
    """Seconds after which the caller should retry.

    A life-cycle operation may end sooner, or go on for longer; after this time its holder must have
    sent a heartbeat.
    """
    return 1 if lease.operation in (SYNC, REGISTER, DELETE) else max(1, math.ceil(lease.remaining))


class OperationLimits(msgspec.Struct, frozen=True):
    """The options of ``[operations]``. The option group itself serves, too: a reload of its values then counts."""

    lease_time: float = 30.0
    """Seconds until a lease without heartbeat expires; read at each use."""


class Operations:
    """Takes, extends and ends the leases of one kind of entity."""

    def __init__(self, leases: OperationLeases, kind: str, limits: OperationLimits) -> None:
        self.kind = kind
        self._leases = leases
        self._limits = limits

    def begin(
        self, entity_id: str, operation: str, holder: str, owner: Owner = SERVICE, *, recorded: bool = True
    ) -> TakenLease:
        """Take the lease.

        :param operation: such as SCALE or SYNC; shown to the second caller.
        :param holder: who it is, fit to be shown.
        :param owner: the only one whose proof is accepted.
        :param recorded: whether the history of operations contains it.
        :raises OperationRunning: another holds it.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        request = LeaseRequest(
            kind=self.kind,
            entity_id=entity_id,
            id=str(uuid.uuid4()),
            holder=holder,
            operation=operation,
            seconds=self._limits.lease_time,
            recorded=recorded,
            user_id=owner.user_id,
            project_id=owner.project_id,
            secret_digest=_digest(secret),
        )
        lease = self._leases.take(request)
        if lease.id != request.id:
            raise OperationRunning(lease)
        return TakenLease(**msgspec.structs.asdict(lease), secret=secret)

    def running(self, entity_id: str) -> LeaseRow | None:
        """The running lease of the entity, or None."""
        lease = self._leases.read(self.kind, entity_id)
        return lease if lease is not None and lease.remaining > 0 else None

    def running_on(self, entity_ids: Collection[str]) -> dict[str, LeaseRow]:
        """Entity id -> running lease, of those of these entities that have one."""
        return self._leases.running(self.kind, entity_ids)

    def all_running(self, project_id: str | None, *, after: str, limit: int) -> list[LeaseRow]:
        """Running leases of all entities, by their ids.

        :param project_id: only those of entities of this project; None: of all.
        :param after: the id of the last lease of the page before; empty: from the first one.
        """
        return self._leases.page_of_running(self.kind, project_id=project_id, after=after, limit=limit)

    def verify(self, entity_id: str, operation_id: str, proof: Proof) -> OperationRow:
        """Verify that the caller began the operation, and return it, running or ended.

        :raises NoSuchOperation: there is none, or it belongs to another project.
        :raises ProofRefused: it belongs to another user, or the secret is wrong.
        """
        row = self.show(entity_id, operation_id)
        if row is None or (row.user_id is not None and row.project_id != proof.owner.project_id):
            raise NoSuchOperation(f"operation {operation_id} of {self.kind} {entity_id} does not exist")
        if not _proves(proof, row):
            raise ProofRefused
        return row

    def heartbeat(self, entity_id: str, lease_id: str, proof: Proof, token: int | None = None) -> LeaseRow:
        """Extend the lease: the holder is alive.

        :raises NoSuchOperation, ProofRefused: see :meth:`verify`.
        :raises StaleToken: this holder no longer has the lease, or it has expired.
        """
        self.verify(entity_id, lease_id, proof)
        lease = self._leases.heartbeat(self.kind, entity_id, lease_id, token, self._limits.lease_time)
        if lease is None:
            raise self._stale(entity_id)
        return lease

    def end(
        self, entity_id: str, lease_id: str, proof: Proof | None, token: int | None = None, state: str = COMPLETED
    ) -> None:
        """Give the lease back.

        :param state: how the operation ends.
        :param proof: None: the caller is this process itself, or an administrator that the policy allows it.
        :raises NoSuchOperation, ProofRefused: see :meth:`verify`.
        :raises StaleToken: this holder no longer has the lease, or it has expired.
        """
        if proof is not None:
            self.verify(entity_id, lease_id, proof)
        if not self._leases.end(self.kind, entity_id, lease_id, token, state):
            raise self._stale(entity_id)

    def end_within(
        self, connection: sa.Connection, entity_id: str, lease_id: str, token: int | None, state: str
    ) -> None:
        """Give the lease back inside the transaction that writes what depends on it. The caller verified the proof.

        :raises StaleToken: this holder no longer has the lease, or it has expired.
        """
        if not self._leases.end_within(connection, self.kind, entity_id, lease_id, token, state):
            raise StaleToken(None)

    def verify_token(self, connection: sa.Connection, entity_id: str, token: int, proof: Proof) -> None:
        """Verify a writer's token and proof against the lease, inside the transaction that writes.

        :raises StaleToken: nothing may be written with this token.
        :raises ProofRefused: the lease belongs to another, or the secret is wrong.
        """
        lease = self._leases.lock_token(connection, self.kind, entity_id, token)
        if lease is None:
            raise StaleToken(None)
        if not _proves(proof, lease):
            raise ProofRefused

    @contextlib.contextmanager
    def held(
        self, entity_id: str, operation: str, holder: str, owner: Owner = SERVICE, *, forget: bool = False
    ) -> Iterator[TakenLease]:
        """Hold the lease for one short write, which the history of operations does not contain.

        If the entity does not exist afterwards, such as after a refused write, the new row of the lease is deleted.

        :param forget: the write deletes the entity, whose id is never used again: delete the lease, too.
        :raises OperationRunning: another holds it.
        """
        lease = self.begin(entity_id, operation, holder, owner, recorded=False)
        try:
            yield lease
            if forget:
                self._leases.forget(self.kind, entity_id, lease.id)
        finally:
            # If another holder took it over meanwhile, it is theirs.
            with contextlib.suppress(StaleToken):
                is_new = lease.token == 1  # this call made the row
                if not (is_new and self._leases.forget_absent(self.kind, entity_id, lease.id)):
                    self.end(entity_id, lease.id, None, lease.token)

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


def _proves(proof: Proof, row: LeaseRow | OperationRow) -> bool:
    """Whether the proof is that of the owner. The time of the comparison does not depend on the secret."""
    # The digest is compared in every case, so that the time does not tell a wrong owner from a wrong secret.
    is_secret = hmac.compare_digest(_digest(proof.secret), row.secret_digest or "")
    return is_secret and (row.user_id, row.project_id) == (proof.owner.user_id, proof.owner.project_id)


def _digest(secret: str) -> str:
    """SHA-256, which suits a random secret of 256 bits: it needs no salt and no slow function."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
