# SPDX-License-Identifier: Apache-2.0
"""Requests to JetStream's administration: JSON to a subject, and the answer as a struct.

Source: NATS JetStream wire API reference. For the event loop's thread only.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.transports.exceptions import NotAnswered, NotReady
from watcher_sync.transports.nats.connection import NatsConnection

NANOSECONDS: Final = 1_000_000_000
"""JetStream's requests and answers have durations in nanoseconds."""
NO_STREAM: Final = 10059
STREAM_EXISTS: Final = 10058
NOT_FOUND: Final = 404


class JetStreamError(msgspec.Struct):
    """Why the server refused a request, or a message."""

    code: int = 0
    err_code: int = 0
    description: str = ""

    def __str__(self) -> str:
        return f"{self.description or self.code} ({self.err_code})"


class JetStreamAnswer(msgspec.Struct, kw_only=True):
    """What all answers have; the fields that a request needs are in a struct of its own."""

    error: JetStreamError | None = None


AnswerT = TypeVar("AnswerT", bound=JetStreamAnswer)


class JetStreamApi:
    """The administration over one connection.

    :param prefix: of its subjects: ``$JS.API``, or ``$JS.<domain>.API``.
    :param timeout: seconds to wait for each answer.
    """

    def __init__(self, connection: NatsConnection, *, prefix: str, timeout: float) -> None:
        self._connection = connection
        self._prefix = prefix
        self._timeout = timeout

    async def ask(self, subject: str, request: dict[str, Any] | None, type_: type[AnswerT]) -> AnswerT:
        """Request, and wait for the answer, which may be an error of the server.

        :raises NotAnswered: there is none in time.
        :raises NotReady: there is no JetStream, or its answer is not understood.
        """
        payload = b"" if request is None else msgspec.json.encode(request)
        try:
            answer = await self._connection.request(f"{self._prefix}.{subject}", payload, timeout=self._timeout)
            return msgspec.json.decode(answer.data, type=type_)
        except NoRespondersError:
            raise NotReady("the server has no JetStream") from None
        except TimeoutError:
            failure = f"JetStream does not answer {subject.rpartition('.')[0]}"
            raise NotAnswered(self._connection.explained(failure)) from None
        except NatsError as exc:
            raise NotReady(f"JetStream cannot be asked: {exc}") from None
        except UNDECODABLE as exc:
            raise NotReady(f"JetStream's answer is not understood: {exc}") from None
