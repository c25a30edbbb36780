# SPDX-License-Identifier: Apache-2.0
"""The gRPC server: its address, its keepalive, its limit for a connection, and its services.

Agents of the Axway dialect send HTTP/2 pings every 50 s, also without a stream. A server of gRPC ends such connections
by default (``too_many_pings``). The options allow them.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2_grpc

from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extensions.watch.limits import StreamLimits
from watcher_sync.extensions.watch.probes import HEALTH, CountedReflection, HealthService, Status
from watcher_sync.extensions.watch.service import SERVICE, WatchService
from watcher_sync.extensions.watch.settings import WatchSettings
from watcher_sync.extensions.watch.tls import Certificates

_SERVER_PING_MS: Final = 60_000
"""Between two HTTP/2 pings of the server, which find dead connections."""
_SERVER_PING_TIMEOUT_MS: Final = 20_000
_MIN_STREAMS_PER_CONNECTION: Final = 100
"""RFC 9113, section 6.5.2, advises no smaller limit."""


class CannotListen(WatcherSyncError):
    """The port cannot be opened."""


class WatchServer:
    """The server with all its services. For the thread of the event loop."""

    def __init__(self, service: WatchService, settings: WatchSettings, certificates: Certificates | None) -> None:
        """:param certificates: None: connections have no TLS."""
        self._settings = settings
        self._certificates = certificates
        self._service = service
        watches = StreamLimits(settings.max_unsubscribed, settings.max_streams_per_identity)
        checks = StreamLimits(settings.max_streams, settings.max_streams_per_identity)
        self._health = HealthService(watches, checks, settings.probe_request_timeout)
        self._server = aio.server(options=options_of(settings))
        self._server.add_generic_rpc_handlers((service.handlers(), self._health.handlers()))
        if settings.reflection:
            servicer = CountedReflection(watches, (SERVICE, HEALTH))
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, self._server)
        self.port = 0

    async def start(self) -> None:
        """Begin to serve.

        :raises CannotListen: the port cannot be opened.
        """
        address = _address(self._settings.host, self._settings.port)
        try:
            if self._certificates is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, self._certificates.credentials())
        except RuntimeError as exc:
            raise CannotListen(f"cannot listen on {address}: {exc}") from None
        if not self.port:
            raise CannotListen(f"cannot listen on {address}")
        await self._server.start()
        self.set_serving(True)

    def set_serving(self, is_serving: bool) -> None:
        """Have the health service answer SERVING or NOT_SERVING."""
        for name in ("", SERVICE):
            self._health.set(name, Status.SERVING if is_serving else Status.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """End all streams with UNAVAILABLE, have clients connect elsewhere, and close the port.

        :param grace: seconds until calls that have not ended are cancelled.
        """
        self.set_serving(False)
        self._service.drain()
        self._health.end()
        await self._server.stop(grace)


def options_of(settings: WatchSettings) -> list[tuple[str, int]]:
    """The channel arguments of gRPC."""
    return [
        # gRPC's GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS. It ignores names that it does not know.
        ("grpc.http2.min_ping_interval_without_data_ms", int(settings.min_keepalive_interval * 1000)),
        # Twice an identity's streams: a client learns of that limit by a status, and does not wait for its turn here.
        ("grpc.max_concurrent_streams", max(_MIN_STREAMS_PER_CONNECTION, 2 * settings.max_streams_per_identity)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", _SERVER_PING_MS),
        ("grpc.keepalive_timeout_ms", _SERVER_PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        # The metadata have the token, too. From 8 KiB on gRPC refuses them by chance, and from 16 KiB always.
        ("grpc.max_metadata_size", settings.max_request_bytes),
        ("grpc.max_send_message_length", -1),
        # Another process on the same port is a mistake, and not a second worker.
        ("grpc.so_reuseport", 0),
    ]


def _address(host: str, port: int) -> str:
    try:
        is_v6 = ipaddress.ip_address(host).version == 6
    except ValueError:  # a name
        is_v6 = False
    return f"[{host}]:{port}" if is_v6 else f"{host}:{port}"
