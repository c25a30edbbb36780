# SPDX-License-Identifier: Apache-2.0
"""The services without a token: ``grpc.health.v1`` and reflection. For the thread of the event loop.

A client without a token must not occupy the process. Therefore health watches and reflection calls have limits, in all
and of an address. They are not those of the streams: watches never refuse a subscription. Checks have further limits
while they wait for their requests: watches never refuse a probe.

The servicer of grpcio-health-checking writes under a lock. One client that does not read would block it for all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

from watcher_sync.extensions.watch import endings
from watcher_sync.extensions.watch.endings import StreamEnding
from watcher_sync.extensions.watch.limits import StreamLimits, address_of

Context = aio.ServicerContext[Any, Any]
Status = health_pb2.HealthCheckResponse

HEALTH: Final[str] = health.SERVICE_NAME
_REFUSAL_SECONDS: Final = 0.1
"""For the request of a refused call. An end that overtakes the request reaches the client as CANCELLED."""


class HealthService:
    """The status of each service name, for checks and watches."""

    def __init__(self, watches: StreamLimits, checks: StreamLimits, request_timeout: float) -> None:
        """:param request_timeout: seconds that a client has for its request."""
        self._watches = watches
        self._checks = checks
        self._request_timeout = request_timeout
        self._statuses: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._has_ended = False

    def handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """The methods, for a server. As streams: the library would wait for the request of a unary call uncounted."""
        methods = {"Check": self._check, "Watch": self._watch}
        return grpc.method_handlers_generic_handler(
            HEALTH, {name: grpc.stream_stream_rpc_method_handler(method) for name, method in methods.items()}
        )

    def set(self, name: str, status: int) -> None:
        """Have checks and watches of a service answer this status."""
        self._statuses[name] = status
        self._wake()

    def end(self) -> None:
        """End all watches with UNAVAILABLE."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _check(self, _requests: Any, context: Context) -> None:
        async with counted(self._checks, context):
            try:
                async with asyncio.timeout(self._request_timeout):
                    status = self._statuses.get(await _read_service(context))
                    if status is None:
                        raise StreamEnding("NOT_FOUND", "there is no such service")
                    await context.write(_answer(status))
            except TimeoutError:
                raise endings.no_request(self._request_timeout) from None

    async def _watch(self, _requests: Any, context: Context) -> None:
        async with counted(self._watches, context):
            try:
                async with asyncio.timeout(self._request_timeout):
                    name = await _read_service(context)
            except TimeoutError:
                raise endings.no_request(self._request_timeout) from None
            shown = None
            while not self._has_ended:
                changed, status = self._changed, self._statuses.get(name, Status.SERVICE_UNKNOWN)
                if status == shown:
                    await changed.wait()
                else:
                    await context.write(_answer(status))
                    shown = status
            raise endings.unavailable("the server stops; connect elsewhere")


async def _read_service(context: Context) -> str:
    data = await context.read()
    try:
        return str(health_pb2.HealthCheckRequest.FromString(bytes(data)).service)
    except (TypeError, DecodeError):  # the end of the requests is no bytes
        raise endings.invalid_argument("the request is no HealthCheckRequest") from None


def _answer(status: int) -> bytes:
    return bytes(Status(status=status).SerializeToString())


class CountedReflection:
    """Reflection, whose calls count as health watches."""

    def __init__(self, limits: StreamLimits, service_names: tuple[str, ...]) -> None:
        self._limits = limits
        self._library = reflection.aio.ReflectionServicer((*service_names, reflection.SERVICE_NAME))  # type: ignore[attr-defined]

    async def ServerReflectionInfo(self, requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: N802
        """The method that the library serves."""
        async with counted(self._limits, context):
            async for answer in self._library.ServerReflectionInfo(requests, context):
                yield answer


@contextlib.asynccontextmanager
async def counted(limits: StreamLimits, context: Context) -> AsyncIterator[None]:
    """Count a call of a client's address, and abort it with the status of a :class:`StreamEnding`."""
    peer = address_of(context.peer())
    try:
        limits.enter(peer)
        try:
            yield
        finally:
            limits.leave(peer)
    except StreamEnding as end:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REFUSAL_SECONDS):
                await context.read()
        await context.abort(grpc.StatusCode[end.status], end.detail)
