# SPDX-License-Identifier: Apache-2.0
"""Why a stream ends: one function for each status of the contract. The names are those of ``grpc.StatusCode``."""

from __future__ import annotations

MIN_SEQUENCE = "min-sequence-id"
MAX_SEQUENCE = "max-sequence-id"
EPOCH = "x-watcher-sync-epoch"
"""In the metadata of both sides: the epoch of the sequences."""
_MAX_SHOWN_CHARACTERS = 300
"""Of what a client sent: the whole may exceed what a client accepts as a status."""


class StreamEnding(Exception):
    """The stream ends with this status.

    :ivar status: the name of a ``grpc.StatusCode``.
    :ivar detail: a sentence for the client.
    :ivar trailers: the trailing metadata.
    """

    def __init__(self, status: str, detail: str, trailers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.trailers = trailers


def shown(text: str) -> str:
    """The begin of a text of the client, for a sentence."""
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "..."


def unauthenticated(detail: str) -> StreamEnding:
    """The token is missing, bad or expired."""
    return StreamEnding("UNAUTHENTICATED", detail)


def permission_denied() -> StreamEnding:
    """The policy does not allow the subscription."""
    return StreamEnding("PERMISSION_DENIED", "the policy does not allow the subscription")


def not_found(self_link: str) -> StreamEnding:
    """There is no such topic, or there is none any more."""
    return StreamEnding("NOT_FOUND", f"there is no topic {shown(self_link)!r}")


def invalid_argument(detail: str) -> StreamEnding:
    """A request is out of order."""
    return StreamEnding("INVALID_ARGUMENT", detail)


def out_of_range(first: int, last: int, epoch: str) -> StreamEnding:
    """The journal does not have the rows after the start of the stream.

    :param first: the first sequence of the journal.
    :param last: the last sequence of the journal.
    :param epoch: of the journal.
    """
    detail = f"the journal has the sequences {first} to {last} of epoch {epoch}; catch up from the lists"
    return StreamEnding("OUT_OF_RANGE", detail, ((MIN_SEQUENCE, str(first)), (MAX_SEQUENCE, str(last)), (EPOCH, epoch)))


def slow_consumer(count: int) -> StreamEnding:
    """The client reads more slowly than the events come."""
    return StreamEnding("RESOURCE_EXHAUSTED", f"{count} events wait for the client; resume after the last one received")


def limit_reached(detail: str) -> StreamEnding:
    """There are as many streams as there may be."""
    return StreamEnding("RESOURCE_EXHAUSTED", detail)


def no_request(seconds: float) -> StreamEnding:
    """The client subscribed to nothing in time."""
    return StreamEnding("DEADLINE_EXCEEDED", f"no subscription arrived within {seconds:g} s")


def unavailable(detail: str) -> StreamEnding:
    """The server cannot serve the stream now; the client retries."""
    return StreamEnding("UNAVAILABLE", detail)


def internal() -> StreamEnding:
    """A defect of the server."""
    return StreamEnding("INTERNAL", "an unexpected error; the log of the server has it")
