# SPDX-License-Identifier: Apache-2.0
"""One stream: a call of ``/central.events.v1.watch/subscribe``.

Two threads belong to it. gRPC's own thread takes requests from the outbox and sends them. The reader thread passes each
event on and answers PINGs. It never waits for the consumer of the events, so a slow consumer delays no answer.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import grpc

from watcher_sync.client.watch.errors import EPOCH_METADATA
from watcher_sync.client.watch.sequences import WatermarkWriter
from watcher_sync.extensions.watch.wire import events_pb2

METHOD = "/central.events.v1.watch/subscribe"
CAPABILITIES = ("ping", "resume", "bookmark")

_JOIN_SECONDS = 10.0

Stub: TypeAlias = "grpc.StreamStreamMultiCallable[events_pb2.Request, events_pb2.Event]"


class StreamEnd(NamedTuple):
    """How a stream ended."""

    code: grpc.StatusCode
    details: str
    trailers: dict[str, str]


def stub_of(channel: grpc.Channel) -> Stub:
    """The method of the service on a channel."""
    return channel.stream_stream(
        METHOD,
        request_serializer=events_pb2.Request.SerializeToString,
        response_deserializer=events_pb2.Event.FromString,
    )


def first_request(topic: str, token: str, after: int) -> events_pb2.Request:
    """The request that begins a stream.

    :param after: the watermark; 0: begin with the next event. A stock service ignores it.
    """
    return events_pb2.Request(
        selfLink=topic,
        token=_with_scheme(token),
        capabilities=CAPABILITIES,
        resumeAfterSequence=after if after > 0 else None,
    )


def token_refresh(topic: str, token: str) -> events_pb2.Request:
    """The request that replaces the token of a stream."""
    return events_pb2.Request(selfLink=topic, token=_with_scheme(token), requestType=events_pb2.TOKEN_REFRESH)


def _with_scheme(token: str) -> str:
    """Return the token as the dialect sends it. A token getter may return it so already."""
    return token if token.lower().startswith("bearer ") else f"Bearer {token}"


class _Outbox(Iterator[events_pb2.Request]):
    """The requests to send. gRPC's thread iterates; any thread adds."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[events_pb2.Request | None] = queue.SimpleQueue()

    def put(self, request: events_pb2.Request | None) -> None:
        """Adds a request; None ends the iteration."""
        self._waiting.put(request)

    def __next__(self) -> events_pb2.Request:
        request = self._waiting.get()
        if request is None:
            raise StopIteration
        return request


class Stream:
    """An open stream."""

    def __init__(
        self,
        stub: Stub,
        request: events_pb2.Request,
        tenant_id: str,
        watermark: WatermarkWriter,
        *,
        on_event: Callable[[events_pb2.Event], None],
        on_bookmark: Callable[[int], None],
        on_end: Callable[[StreamEnd], None],
        logger: logging.Logger,
    ) -> None:
        """Opens the stream and sends its first request. The reader thread calls the functions.

        :param request: see :func:`first_request`.
        :param watermark: has the epoch of the position to resume after. It notes the epoch of the service's sequences
            before the first event, if the service says it. The service may still refuse the position.
        :param on_event: gets every event that is no PING.
        :param on_bookmark: gets the sequence of every PING; 0: it has none.
        :param on_end: is called once, after all events.
        """
        self._topic = request.selfLink
        self._on_event = on_event
        self._on_bookmark = on_bookmark
        self._on_end = on_end
        self._logger = logger
        self._outbox = _Outbox()
        self._outbox.put(request)
        self._watermark = watermark
        metadata: tuple[tuple[str, str | bytes], ...] = (
            ("authorization", request.token),
            ("x-axway-tenant-id", tenant_id),
        )
        if watermark.epoch:
            metadata += ((EPOCH_METADATA, watermark.epoch),)
        self._call = stub(self._outbox, metadata=metadata)
        self._reader = threading.Thread(target=self._read, name="watch-reader", daemon=True)
        self._reader.start()

    def refresh(self, token: str) -> None:
        """Replaces the token."""
        self._outbox.put(token_refresh(self._topic, token))

    def close(self) -> None:
        """Ends the stream and waits for the reader thread."""
        self._outbox.put(None)
        self._call.cancel()  # type: ignore[no-untyped-call]
        if self._reader is not threading.current_thread():
            self._reader.join(_JOIN_SECONDS)

    def _read(self) -> None:
        end = StreamEnd(grpc.StatusCode.OK, "", {})
        try:
            self._note_epoch()
            for event in self._call:
                if event.type == events_pb2.Event.PING:
                    self._pong(event)
                else:
                    self._on_event(event)
        except grpc.RpcError:
            pass  # the status of the call has it
        except Exception as exc:
            # A defect of this client must not leave a watch that waits without a stream.
            self._logger.exception("watch %s: reading failed", self._topic)
            end = StreamEnd(grpc.StatusCode.INTERNAL, str(exc), {})
            self._call.cancel()  # type: ignore[no-untyped-call]
        self._outbox.put(None)
        if end.code is grpc.StatusCode.OK:
            end = self._status()
        self._on_end(end)

    def _note_epoch(self) -> None:
        for name, value in self._call.initial_metadata() or ():
            if name == EPOCH_METADATA and value:
                self._watermark.note_epoch(str(value))

    def _status(self) -> StreamEnd:
        trailers = {
            str(key): value.decode("latin-1") if isinstance(value, bytes) else str(value)
            for key, value in self._call.trailing_metadata() or ()
        }
        return StreamEnd(self._call.code() or grpc.StatusCode.UNKNOWN, self._call.details() or "", trailers)

    def _pong(self, event: events_pb2.Event) -> None:
        self._outbox.put(
            events_pb2.Request(
                selfLink=self._topic,
                requestType=events_pb2.PING_RESPONSE,
                pingResponse=events_pb2.PingResponse(id=event.id),
            )
        )
        self._on_bookmark(event.metadata.sequenceID)
