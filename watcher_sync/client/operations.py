# SPDX-License-Identifier: Apache-2.0
"""A life-cycle operation as a ``with`` block, which holds the operation lease of a VNF instance.

::

    with client.operation(vnf_id, "SCALE", holder="lcm-1") as operation:
        ...
        operation.require_held()    # before each step that must not be done twice
        ...

A thread with a connection of its own sends a heartbeat three times per lease time. The operation ends COMPLETED, or
FAILED if the block raises.

Guarantee: no other operation runs on the instance at the same time, if the holder calls
:meth:`Operation.require_held` before each step. The lease itself may expire: a process that was stopped or
disconnected for longer than the lease time loses it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import msgspec

from watcher_sync.client.errors import ClientError, Conflict, Forbidden, NotFound, OperationLost, PreconditionFailed
from watcher_sync.client.transport import Transport

_LEASE_LOST = (Conflict, Forbidden, NotFound, PreconditionFailed)
"""Answers after which the operation no longer holds the lease. After every other error a retry may succeed."""

_HEARTBEATS_PER_LEASE = 3
_RETRIES_PER_LEASE = 10


class Lease(msgspec.Struct, frozen=True):
    """The lease of an operation, as the API returned it."""

    id: str
    token: int
    since: datetime.datetime
    expires_at: datetime.datetime
    holder: str = ""
    operation: str = ""
    secret: str = ""
    """Known to the holder only; every further request needs it."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Lease({self.operation}, {self.id}, {self.token})"


class Operation:
    """One operation on one instance. A context manager, for one use."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        operation: str,
        holder: str | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param path: path of the instance's operations.

        :param operation: the kind of work, such as SCALE.
        :param holder: name of the holder; the API shows it to others. Host and process id by default.
        """
        self._transport = transport
        self._path = path
        self._body = {"operation": operation, "holder": holder or f"{socket.gethostname()}/{os.getpid()}"}
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lease: Lease | None = None
        # Written by the heartbeat thread, read by all threads; each write replaces the whole value.
        self._extended_at = 0.0
        self._refusal: ClientError | None = None

    @property
    def lease(self) -> Lease:
        """The lease as the API granted it.

        :raises RuntimeError: before the block was entered.
        """
        if self._lease is None:
            raise RuntimeError("the operation has not begun")
        return self._lease

    @property
    def token(self) -> int:
        """The fencing token, for every write that belongs to the operation."""
        return self.lease.token

    @property
    def secret(self) -> str:
        """The secret, for every write that belongs to the operation."""
        return self.lease.secret

    @property
    def held(self) -> bool:
        """Whether this operation certainly holds the lease."""
        return self._refusal is None and self._monotonic() - self._extended_at < self._lease_seconds

    def require_held(self) -> None:
        """:raises OperationLost: when another operation may hold the lease now."""
        if not self.held:
            reason = self._refusal or "no heartbeat succeeded within the lease time"
            raise OperationLost(f"the lease of {self._body['operation']} is lost: {reason}")

    def __enter__(self) -> Operation:
        """:raises Conflict: another operation holds the lease; ``document`` names its holder, see ``retry_after``."""
        begun = self._monotonic()
        self._lease = self._transport.request("POST", self._path, body=self._body, confidential=True).read(Lease)
        self._extended_at = begun
        self._thread = threading.Thread(target=self._send_heartbeats, name="operation-heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        """:raises OperationLost: when the block ended without an exception, but the lease had been lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        # The caller must see the block's own exception. An operation that cannot be ended expires.
        with contextlib.suppress(ClientError) if exc is not None else contextlib.nullcontext():
            self._end("COMPLETED" if exc is None else "FAILED")

    @property
    def _proof(self) -> dict[str, str]:
        return {"Operation-Secret": self.lease.secret}

    @property
    def _lease_seconds(self) -> float:
        return (self.lease.expires_at - self.lease.since).total_seconds()

    def _end(self, state: str) -> None:
        query: dict[str, Any] = {"state": state, "token": self.token}
        try:
            path = f"{self._path}/{self.lease.id}"
            self._transport.request("DELETE", path, query=query, headers=self._proof, confidential=True)
        except _LEASE_LOST as refusal:
            raise OperationLost(f"the lease of {self._body['operation']} was lost: {refusal}") from refusal

    def _send_heartbeats(self) -> None:
        """Runs in the heartbeat thread until the block ends, or the API refuses a heartbeat."""
        transport, body = self._transport.for_thread(), {"token": self.token}
        path, pause = f"{self._path}/{self.lease.id}", self._lease_seconds / _HEARTBEATS_PER_LEASE
        while not self._stop.wait(pause):
            sent_at = self._monotonic()
            try:
                transport.request("PUT", path, body=body, headers=self._proof, confidential=True)
            except _LEASE_LOST as refusal:
                self._refusal = refusal
                return
            except ClientError:
                pause = self._lease_seconds / _RETRIES_PER_LEASE
            else:
                self._extended_at, pause = sent_at, self._lease_seconds / _HEARTBEATS_PER_LEASE
