# SPDX-License-Identifier: Apache-2.0
"""A fake watch service on two ports of this machine: the gRPC stream, and the REST catch-up.

As *stock* it behaves like the dialect's own service: no previous sequence, no resume, no bookmark. It begins a stream
after the last event that it served by REST, or at the head. Otherwise it behaves like watcher_sync.

Each thing that goes wrong has a method: a refused stream, an end, an event that the stream loses, a purge, a restart.
"""

from __future__ import annotations

import http.server
import queue
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc

from watcher_sync.extensions.watch.wire import events_pb2
from watcher_sync.testing.watch.catch_up import Answer, Asked, answer, handler_class
from watcher_sync.testing.watch.topic import FakeTopic

SERVICE = "central.events.v1.watch"

_WAIT_SECONDS = 0.02


class Refusal(NamedTuple):
    """How a stream ends."""

    code: grpc.StatusCode
    details: str = ""
    trailers: tuple[tuple[str, str], ...] = ()


class FakeStream:
    """One stream that a client opened.

    :ivar metadata: the call's metadata.
    :ivar requests: what the client sent so far.
    :ivar sent: how many events the stream has sent.
    """

    def __init__(self, metadata: dict[str, str]) -> None:
        self.metadata = metadata
        self.requests: list[events_pb2.Request] = []
        self.sent = 0
        self.is_open = True
        self.extra: queue.SimpleQueue[events_pb2.Event | Refusal] = queue.SimpleQueue()

    def ping(self, ping_id: str, bookmark: int = 0) -> None:
        """Sends a PING.

        :param bookmark: the sequence in it; 0: none.
        """
        self.extra.put(
            events_pb2.Event(
                id=ping_id,
                type=events_pb2.Event.PING,
                metadata=events_pb2.EventMeta(sequenceID=bookmark) if bookmark else None,
            )
        )

    def end(self, code: grpc.StatusCode, details: str = "", trailers: tuple[tuple[str, str], ...] = ()) -> None:
        """Ends the stream with a status."""
        self.extra.put(Refusal(code, details, trailers))


class FakeWatchService:
    """A watch service with one topic.

    :ivar topic: its events.
    :ivar streams: every stream that clients opened, in this order.
    :ivar asked: every request of a catch-up.
    :ivar answers: what the next catch-ups get instead of a page.
    :ivar refusals: how the next streams end instead of sending events.
    """

    def __init__(
        self,
        *,
        is_stock: bool = False,
        topic: FakeTopic | None = None,
        credentials: grpc.ServerCredentials | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """:param credentials: TLS of the stream.

        :param context: TLS of the catch-up.
        """
        self.topic = topic or FakeTopic()
        self.streams: list[FakeStream] = []
        self.asked: list[Asked] = []
        self.answers: deque[Answer] = deque()
        self.refusals: deque[Refusal] = deque()
        self.port = 0
        self._is_stock = is_stock
        self._credentials = credentials
        self._served = 0
        self._server: grpc.Server | None = None
        self.start()
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_class(self._on_catch_up))
        self._http.daemon_threads = True
        if context is not None:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(_WAIT_SECONDS,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._http.shutdown()
        self._http.server_close()

    def start(self) -> None:
        """Serves streams, after a stop on the same port as before."""
        server = grpc.server(
            ThreadPoolExecutor(64),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
            ],
        )
        method = grpc.stream_stream_rpc_method_handler(
            self._subscribe,
            request_deserializer=events_pb2.Request.FromString,
            response_serializer=events_pb2.Event.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"subscribe": method}),))
        address = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self.port = server.add_insecure_port(address)
        else:
            self.port = server.add_secure_port(address, self._credentials)
        server.start()
        self._server = server

    def stop(self) -> None:
        """Ends all streams and closes the port of the stream. The catch-up goes on."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def open_streams(self) -> list[FakeStream]:
        """The streams that are open now."""
        return [stream for stream in list(self.streams) if stream.is_open]

    def _on_catch_up(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.answers:
            return self.answers.popleft()
        found, known = answer(self.topic, asked, is_stock=self._is_stock)
        self._served = max(self._served, known)
        return found

    def _subscribe(
        self, requests: Iterator[events_pb2.Request], context: grpc.ServicerContext
    ) -> Iterator[events_pb2.Event]:
        stream = FakeStream({str(key): str(value) for key, value in context.invocation_metadata()})
        self.streams.append(stream)
        try:
            first = next(requests)
            stream.requests.append(first)
            threading.Thread(target=self._receive, args=(stream, requests), daemon=True).start()
            if self.refusals:
                _abort(context, self.refusals.popleft())
            after = self._begin(first)
            if self.topic.is_purged(after):
                trailers = (
                    ("min-sequence-id", str(self.topic.min_sequence)),
                    ("max-sequence-id", str(self.topic.head)),
                )
                _abort(context, Refusal(grpc.StatusCode.OUT_OF_RANGE, "purged", trailers))
            yield from self._send(stream, after, context)
        except StopIteration:
            return
        finally:
            stream.is_open = False

    def _begin(self, first: events_pb2.Request) -> int:
        if not self._is_stock and "resume" in first.capabilities and first.HasField("resumeAfterSequence"):
            return first.resumeAfterSequence
        return self._served if self._is_stock and self._served else self.topic.head

    def _send(self, stream: FakeStream, after: int, context: grpc.ServicerContext) -> Iterator[events_pb2.Event]:
        while context.is_active():
            while not stream.extra.empty():
                extra = stream.extra.get()
                if isinstance(extra, Refusal):
                    _abort(context, extra)
                else:
                    yield extra
            events = self.topic.newer(after, 100, streamed=True)
            for event in events:
                after = event.metadata.sequenceID
                yield self._as_sent(event)
                stream.sent += 1
            if not events:
                with self.topic.changed:
                    if self.topic.head <= after:
                        self.topic.changed.wait(_WAIT_SECONDS)

    def _as_sent(self, event: events_pb2.Event) -> events_pb2.Event:
        if not self._is_stock:
            return event
        made = events_pb2.Event()
        made.CopyFrom(event)
        made.metadata.ClearField("prevSequenceID")
        made.metadata.ClearField("versions")
        made.metadata.ClearField("unset")
        return made

    def _receive(self, stream: FakeStream, requests: Iterator[events_pb2.Request]) -> None:
        try:
            stream.requests.extend(requests)
        except grpc.RpcError:
            return  # the client left


def _abort(context: grpc.ServicerContext, refusal: Refusal) -> Any:
    context.set_trailing_metadata(refusal.trailers)
    if refusal.code is grpc.StatusCode.OK:
        raise StopIteration
    context.abort(refusal.code, refusal.details)
