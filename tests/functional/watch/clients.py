# SPDX-License-Identifier: Apache-2.0
"""A watch client in threads, as an agent has one: it subscribes, answers pings, and notes what arrives."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from tests.functional.watch.dialect import METHOD, OURS, PING, PING_RESPONSE, STOCK, TOKEN_REFRESH, Dialect
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until

SELF_LINK = "/management/v1alpha1/watchtopics/all"


class WatchClient:
    """One stream. Its reader is a thread of the test, which can be paused."""

    def __init__(
        self, channel: grpc.Channel, *, dialect: Dialect = OURS, token: str = "", answers_pings: bool = True
    ) -> None:
        self._dialect = dialect
        self._requests: queue.Queue[Any] = queue.Queue()
        self.events: list[Any] = []
        """All that arrived but pings."""
        self.pings: list[Any] = []
        self.answered = 0
        self.status: grpc.StatusCode | None = None
        self.details = ""
        self.trailers: dict[str, Any] = {}
        self._answers_pings = answers_pings
        self._may_read = threading.Event()
        self._may_read.set()
        method = channel.stream_stream(
            METHOD,
            request_serializer=dialect.request.SerializeToString,
            response_deserializer=dialect.event.FromString,
        )
        metadata = [("authorization", f"Bearer {token}")] if token else []
        metadata.append(("x-axway-tenant-id", "tenant"))
        self._call: Any = method(iter(self._requests.get, None), metadata=metadata)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while True:
                self._may_read.wait()
                event = next(self._call)
                if event.type == PING:
                    self.pings.append(event)
                    if self._answers_pings:
                        self.answered += 1
                        self.send(requestType=PING_RESPONSE, pingResponse={"id": event.id})
                else:
                    self.events.append(event)
        except StopIteration:
            self.status = grpc.StatusCode.OK
        except grpc.RpcError as exc:
            self.details = exc.details() or ""
            self.trailers = dict(exc.trailing_metadata() or ())
            self.status = exc.code()

    def send(self, **members: Any) -> None:
        self._requests.put(self._dialect.request(**members))

    def subscribe(
        self, token: str = "", *, self_link: str = SELF_LINK, after: int | None = None, capabilities: Any = ("ping",)
    ) -> WatchClient:
        offered = list(capabilities)
        more = {}
        if after is not None:
            offered.append("resume")
            more["resumeAfterSequence"] = after
        self.send(selfLink=self_link, token=token, capabilities=offered, **more)
        return self

    def refresh(self, token: str, self_link: str = SELF_LINK) -> None:
        self.send(selfLink=self_link, token=token, requestType=TOKEN_REFRESH)

    def end_requests(self) -> None:
        self._requests.put(None)

    def pause(self) -> None:
        self._may_read.clear()

    def go_on(self) -> None:
        self._may_read.set()

    def close(self) -> None:
        self._may_read.set()
        self._requests.put(None)
        self._call.cancel()
        self._thread.join(deadline(10))

    @property
    def sequences(self) -> list[int]:
        return [event.metadata.sequenceID for event in self.events]

    def wait_for(self, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        wait_until(lambda: len(self.events) >= count or self.status is not None, seconds, f"{count} events")
        assert len(self.events) >= count, (len(self.events), self.status, self.details)

    def wait_for_status(self, seconds: float = PATIENCE_SECONDS) -> grpc.StatusCode:
        wait_until(lambda: self.status is not None, seconds, "the end of the stream")
        assert self.status is not None
        return self.status


@contextlib.contextmanager
def channel_to(port: int, **options: int) -> Iterator[grpc.Channel]:
    """A connection of its own.

    :param options: channel arguments, with ``__`` for the dots.
    """
    arguments = [("grpc.use_local_subchannel_pool", 1), *((k.replace("__", "."), v) for k, v in options.items())]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=arguments) as channel:
        yield channel


__all__ = ["OURS", "SELF_LINK", "STOCK", "WatchClient", "channel_to"]
