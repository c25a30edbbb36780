# SPDX-License-Identifier: Apache-2.0
"""Requests and answers between HTTP and the services, and the errors that become answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

ServiceType = Literal["identity", "compute", "placement"]

_NOVA_FAULTS: Final = {
    400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod",
    409: "conflictingRequest", 413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented",
    503: "serviceUnavailable",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as the services, the faults and the counts see it."""

    service: ServiceType
    method: str
    path: str
    """Without the query, such as ``/v2.1/servers/detail``."""
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Their names are in lower case."""
    body: bytes = dataclasses.field(default=b"", repr=False)
    base: str = dataclasses.field(default="", repr=False)
    """The URL of the service, without a slash at its end."""

    def last(self, name: str) -> str | None:
        """The last value of a parameter, or None."""
        values = self.query.get(name)
        return values[-1] if values else None


@dataclasses.dataclass(frozen=True)
class Response:
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class ApiError(Exception):
    """An answer with an error status; each service has its own form of the body."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def response(self, service: ServiceType) -> Response:
        """As the service writes it."""
        body: dict[str, Any]
        headers = dict(self.headers)
        if self.status == 401 or service == "identity":
            title = HTTPStatus(self.status).phrase
            body = {"error": {"code": self.status, "title": title, "message": self.message}}
        elif service == "compute":
            fault: dict[str, Any] = {"code": self.status, "message": self.message}
            if self.status in (413, 429) and "Retry-After" in headers:
                fault["retryAfter"] = headers["Retry-After"]
            body = {_NOVA_FAULTS.get(self.status, "computeFault"): fault}
        else:
            title = HTTPStatus(self.status).phrase
            error = {"status": self.status, "title": title, "detail": self.message, "code": "placement.undefined_code"}
            body = {"errors": [error]}
        return Response(self.status, msgspec.json.encode(body), headers)


def json_response(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a JSON document."""
    return Response(status, msgspec.json.encode(document), headers or {})


def unauthorized() -> ApiError:
    """401, as keystonemiddleware answers for a token that is missing, unknown or expired."""
    return ApiError(401, "The request you have made requires authentication.")


def not_found(message: str = "The resource could not be found.") -> ApiError:
    return ApiError(404, message)
