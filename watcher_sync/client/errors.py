# SPDX-License-Identifier: Apache-2.0
"""The errors of the client. All of them derive from :class:`ClientError`.

An error in an answer of the API is a :class:`ProblemError` with the members of its problem details.
The function :func:`problem_error` chooses the class by the HTTP status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class ClientError(Exception):
    """The base of the client's errors. Its message is one sentence for the user."""


class NotConfigured(ClientError):
    """The configuration names no server, or the credentials cannot be used."""


class UnknownKind(ClientError):
    """The server has no such kind of entity. The message names the kinds that it has."""


class InvalidId(ClientError):
    """The id cannot be part of a path, so no request can name the entity. Lists contain it."""


class Unreachable(ClientError):
    """The client got no answer: no connection, a broken connection, or a timeout. A retry may succeed."""


class UnexpectedResponse(ClientError):
    """The answer is not one of this API, or of a version that this client does not understand."""


class OversizedAnswer(UnexpectedResponse):
    """The answer has more bytes than this client reads. A list with a lower limit may be smaller."""


class OperationLost(ClientError):
    """The lease of an operation has expired, or its state is unknown. The holder must stop the operation."""


class FieldError(msgspec.Struct, frozen=True):
    """One wrong field of a request."""

    where: str = msgspec.field(name="in", default="")
    """query, body, header or path."""
    pointer: str = ""
    """JSON Pointer (RFC 6901)."""
    detail: str = ""


class ProblemError(ClientError):
    """The API refused the request.

    :ivar status: the HTTP status.
    :ivar detail: the reason, one sentence of the API.
    :ivar errors: the wrong fields of the request.
    :ivar retry_after: seconds until the next attempt makes sense; None if the API gave no time.
    :ivar document: all members of the problem.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
        document: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.document = dict(document or {})


class BadRequest(ProblemError):
    """400: the request is wrong; ``errors`` names each wrong field."""


class Unauthorized(ProblemError):
    """401: the request has no valid token."""


class Forbidden(ProblemError):
    """403: the policy does not allow the request."""


class NotFound(ProblemError):
    """404: the entity does not exist, or the caller may not see it."""


class Conflict(ProblemError):
    """409: the request conflicts with the present state, such as an id in use or an operation that holds the lease."""


class Gone(ProblemError):
    """410: the journal does not reach back that far, or is another one. The caller must read the lists again."""


class PreconditionFailed(ProblemError):
    """412: another writer changed the entity since it was read."""


class Unprocessable(ProblemError):
    """422: the request is well formed, but the server cannot do it."""


class ServerFailed(ProblemError):
    """500 and above: the server failed; its log has the reason."""


class Unavailable(ServerFailed):
    """502, 503 or 504: the server is unavailable now; see ``retry_after``."""


_BY_STATUS: Mapping[int, type[ProblemError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    412: PreconditionFailed,
    422: Unprocessable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def problem_error(
    status: int, detail: str, *, errors: Sequence[FieldError], retry_after: float | None, document: Mapping[str, Any]
) -> ProblemError:
    """Makes the error of an HTTP status."""
    cls = _BY_STATUS.get(status, ServerFailed if status >= 500 else ProblemError)
    return cls(status, detail, errors=errors, retry_after=retry_after, document=document)
