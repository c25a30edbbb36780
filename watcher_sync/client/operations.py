# SPDX-License-Identifier: Apache-2.0
"""A life-cycle operation as a ``with`` block: the instance is taken, kept, and given back however the block ends.

::

    with client.operation(vnf_id, "SCALE", holder="lcm-1") as operation:
        ...
        operation.demand_held()     # before each step that must not be done twice
        ...

While the block runs, a thread of its own says every third of the lease's time that the holder lives, over a
connection of its own. It ends COMPLETED, or FAILED where the block raises. What is promised: nobody else's operation
runs on the instance at the same time, as long as the holder looks at :meth:`Operation.demand_held`. What is not: that
the lease lasts. A process that was stopped, or cut off for longer than the lease's time, may have lost it.
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

from watcher_sync.client.errors import ClientError, Conflict, NotFound, OperationLost, PreconditionFailed
from watcher_sync.client.transport import Transport

_REFUSED = (Conflict, NotFound, PreconditionFailed)
"""Answers that say that the lease is not ours; every other failure may pass."""


class Lease(msgspec.Struct, frozen=True):
    """What the API says about an operation."""

    id: str
    token: int
    since: datetime.datetime
    expires_at: datetime.datetime
    holder: str = ""
    operation: str = ""


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
        """:param path: of the instance's operations.

        :param operation: what is done, such as SCALE.
        :param holder: who does it, shown to whoever comes second; this process unless given.
        """
        self._transport = transport
        self._path = path
        self._body = {"operation": operation, "holder": holder or f"{socket.gethostname()}/{os.getpid()}"}
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lease: Lease | None = None
        # Written by the thread, read by all; each is replaced whole.
        self._heard_at = 0.0
        self._refusal: ClientError | None = None

    @property
    def lease(self) -> Lease:
        """What was taken.

        :raises RuntimeError: before the block was entered.
        """
        if self._lease is None:
            raise RuntimeError("the operation has not begun")
        return self._lease

    @property
    def token(self) -> int:
        """The fencing token: for whatever is written on behalf of the operation."""
        return self.lease.token

    @property
    def held(self) -> bool:
        """Whether the lease is certainly still this operation's."""
        return self._refusal is None and self._monotonic() - self._heard_at < self._seconds

    def demand_held(self) -> None:
        """:raises OperationLost: when another may have the instance now."""
        if not self.held:
            raise OperationLost(
                f"the lease of {self._body['operation']} is lost: {self._refusal or 'not heard for long'}"
            )

    def __enter__(self) -> Operation:
        """:raises Conflict: another holds the instance; ``document`` says who, ``retry_after`` when to ask again."""
        begun = self._monotonic()
        self._lease = self._transport.request("POST", self._path, body=self._body).read(Lease)
        self._heard_at = begun
        self._thread = threading.Thread(target=self._beat, name="operation-heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        """:raises OperationLost: when the block came to its end and the lease had been lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        # The block's own exception is what the caller has to see; an operation that cannot be ended expires.
        with contextlib.suppress(ClientError) if exc is not None else contextlib.nullcontext():
            self._end("COMPLETED" if exc is None else "FAILED")

    @property
    def _seconds(self) -> float:
        return (self.lease.expires_at - self.lease.since).total_seconds()

    def _end(self, state: str) -> None:
        query: dict[str, Any] = {"state": state, "token": self.token}
        try:
            self._transport.request("DELETE", f"{self._path}/{self.lease.id}", query=query)
        except _REFUSED as refusal:
            raise OperationLost(f"the lease of {self._body['operation']} was lost: {refusal}") from refusal

    def _beat(self) -> None:
        """The thread: until the block ends, or somebody else has the instance."""
        transport, body = self._transport.apart(), {"token": self.token}
        pause = self._seconds / 3
        while not self._stop.wait(pause):
            asked = self._monotonic()
            try:
                transport.request("PUT", f"{self._path}/{self.lease.id}", body=body)
            except _REFUSED as refusal:
                self._refusal = refusal
                return
            except ClientError:
                pause = self._seconds / 10  # it may pass: asked again soon
            else:
                self._heard_at, pause = asked, self._seconds / 3
