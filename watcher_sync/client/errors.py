# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a client and the API, a sentence each.

Everything derives from :class:`ClientError`. What the API itself answered is a :class:`ProblemError` with the
members of its problem details (RFC 9457); :func:`problem_error` picks the class by the status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class ClientError(Exception):
    """The root of the client's errors; its message is one sentence, fit to be shown to a person."""


class NotConfigured(ClientError):
    """Nothing says where the server is, or what says it cannot be used."""


class UnknownKind(ClientError):
    """The server knows no such kind of entity; the message names those that it knows."""


class InvalidId(ClientError):
    """The id cannot stand in a path, so the API cannot be asked for it; lists have what it names."""


class Unreachable(ClientError):
    """No answer came: no connection, a connection that broke, or a time that ran out. It may be tried again."""


class UnexpectedResponse(ClientError):
    """What answered is not this API, or one that this client does not understand."""


class OperationLost(ClientError):
    """The lease of an operation is not held any more, or nobody knows: nothing more may be done on its behalf."""


class FieldError(msgspec.Struct, frozen=True):
    """One field of a request that the API found wrong."""

    where: str = msgspec.field(name="in", default="")
    """query, body, header or path."""
    pointer: str = ""
    """JSON Pointer (RFC 6901)."""
    detail: str = ""


class ProblemError(ClientError):
    """The API refused the request.

    :ivar status: the HTTP status.
    :ivar detail: what the API said, one sentence.
    :ivar errors: which fields of the request are wrong.
    :ivar retry_after: seconds after which to try again, where the API said so.
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
    """400: the request is wrong; ``errors`` names each field that is."""


class Unauthorized(ProblemError):
    """401: the API wants a token and got none that is valid."""


class Forbidden(ProblemError):
    """403: the policy does not allow it to this caller."""


class NotFound(ProblemError):
    """404: the thing does not exist, or this caller may not know that it does."""


class Conflict(ProblemError):
    """409: something else stands in the way, such as an id that is taken or an operation that holds the lease."""


class Gone(ProblemError):
    """410: the journal does not reach back that far, or is another one: read the lists again."""


class PreconditionFailed(ProblemError):
    """412: somebody else wrote it since it was read."""


class Unprocessable(ProblemError):
    """422: the request is well formed and cannot be done."""


class ServerFailed(ProblemError):
    """500 and above: the server failed; its log says why."""


class Unavailable(ServerFailed):
    """502, 503 or 504: the server cannot do it now and may later; see ``retry_after``."""


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
    """The error of a status."""
    cls = _BY_STATUS.get(status, ServerFailed if status >= 500 else ProblemError)
    return cls(status, detail, errors=errors, retry_after=retry_after, document=document)
