# SPDX-License-Identifier: Apache-2.0
"""The errors of the watch client. All of them derive from :class:`WatchError`.

The function :func:`error_of_status` chooses the class by the gRPC status of a stream. None means that a new stream may
succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import grpc

from watcher_sync.client.errors import ClientError


class WatchError(ClientError):
    """The base of the watch client's errors. Its message is one sentence for the user."""


class UnsupportedProxy(WatchError):
    """The proxy's URL has a scheme that gRPC ignores, so the connection would bypass the proxy."""


class InvalidSettings(WatchError):
    """An argument of the manager is wrong, or a file that it names cannot be read."""


class ManagerClosed(WatchError):
    """The manager is closed and registers no watch."""


class UnknownWatch(WatchError):
    """The manager has no watch with this id."""


class MissingSequence(WatchError):
    """The sequence is negative: its store has lost it, so the client does not know where to resume."""


class EventsPurged(WatchError):
    """The service no longer has the events after the watermark. The caller must read the lists again.

    :ivar topic: the self link of the topic.
    :ivar after: the watermark.
    :ivar min_sequence: the oldest event that the service has; None if it did not say.
    :ivar max_sequence: the newest event that the service has; None if it did not say.
    :ivar epoch: the epoch of the service's events; None if it did not say.
    """

    def __init__(
        self,
        topic: str,
        after: int,
        *,
        min_sequence: int | None = None,
        max_sequence: int | None = None,
        epoch: str | None = None,
    ) -> None:
        super().__init__(f"the service does not have the events of {topic} after sequence {after} any more")
        self.epoch = epoch
        self.topic = topic
        self.after = after
        self.min_sequence = min_sequence
        self.max_sequence = max_sequence


class Unauthenticated(WatchError):
    """The service refused two fresh tokens in succession."""


class PermissionDenied(WatchError):
    """The policy of the service does not allow the watch."""


class TopicNotFound(WatchError):
    """The service has no such topic."""


class RequestRefused(WatchError):
    """The service refused the request as wrong."""


class NotWatchService(WatchError):
    """The server at this address does not implement the watch service."""


class ConsumerFailed(WatchError):
    """The function that receives the events raised an exception. Its cause is that exception."""


class HarvestFailed(WatchError):
    """The catch-up got no answer that it understands. A retry may succeed."""


class HarvestRefused(WatchError):
    """The service refuses the catch-up, so a retry cannot succeed.

    :ivar status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


_FINAL: Mapping[grpc.StatusCode, Callable[[str], WatchError]] = {
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: TopicNotFound,
    grpc.StatusCode.INVALID_ARGUMENT: RequestRefused,
    grpc.StatusCode.UNIMPLEMENTED: NotWatchService,
}

_OF_HTTP = "Received http2 header with status: "
"""So gRPC explains a status that it made of an HTTP status, because the answer has none of gRPC."""

MIN_SEQUENCE_TRAILER = "min-sequence-id"
MAX_SEQUENCE_TRAILER = "max-sequence-id"
EPOCH_METADATA = "x-watcher-sync-epoch"
"""The epoch of the sequences, in the metadata of both sides."""


def error_of_status(
    code: grpc.StatusCode, details: str, trailers: Mapping[str, str], *, topic: str, after: int
) -> WatchError | None:
    """The error of a stream's status; None if the client resumes the stream.

    :param trailers: the trailing metadata; OUT_OF_RANGE carries the bounds of the stored events.
    :param after: the watermark.
    """
    if code is grpc.StatusCode.OUT_OF_RANGE:
        return EventsPurged(
            topic,
            after,
            min_sequence=_number(trailers.get(MIN_SEQUENCE_TRAILER)),
            max_sequence=_number(trailers.get(MAX_SEQUENCE_TRAILER)),
            epoch=trailers.get(EPOCH_METADATA) or None,
        )
    made = _FINAL.get(code)
    return made(f"{topic}: {details or code.name}") if made is not None else None


def is_of_proxy(details: str) -> bool:
    """Whether a status is not of a gRPC service: a proxy answers 404 while it knows no service behind it."""
    return details.startswith(_OF_HTTP)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
