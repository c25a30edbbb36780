# SPDX-License-Identifier: Apache-2.0
"""Answers every error with problem details (RFC 9457), without internal information.

If the request is wrong, ``errors`` names each wrong field as ``{in, pointer, detail}``. Here ``in`` is ``query``,
``body``, ``header`` or ``path``, and ``pointer`` is a JSON Pointer (RFC 6901).

The API logs an unexpected exception with its traceback, and answers 500 without it.
"""

from __future__ import annotations

import functools
import http
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import falcon
import msgspec
from oslo_log import log as logging

from watcher_sync.api.http.envelope import REQUEST_ID
from watcher_sync.exceptions import (
    DatabaseUnavailable,
    FollowedEntity,
    HeadMoved,
    InvalidEvent,
    JournalPurged,
    NoSuchOperation,
    OperationRunning,
    ProofRefused,
    RowRefused,
    SchemaMissing,
    StaleToken,
    StatementTooLong,
    TransactionConflict,
    WatcherSyncError,
)
from watcher_sync.operations import retry_after

LOG = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class FieldProblem(msgspec.Struct, frozen=True):
    """One wrong field of a request."""

    where: str = msgspec.field(name="in")
    pointer: str
    detail: str


class Problem(Exception):
    """An answer that is an error.

    :param status: the HTTP status.
    :param detail: the reason, one sentence for the user.
    :param errors: the wrong fields of the request.
    :param headers: further response headers.
    :param extra: further members of the document.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Iterable[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """Returns the members of the problem."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = self.errors
        return document | self.extra


def bad_request(where: str, pointer: str, detail: str, status: int = 400) -> Problem:
    """Makes the problem of a request with one wrong field."""
    return Problem(status, detail, errors=[FieldProblem(where, pointer, detail)])


def not_found(what: str) -> Problem:
    """Makes the 404 of a resource that does not exist, or that the caller may not see."""
    return Problem(404, f"{what} does not exist")


def lease_conflict(
    detail: str, lease: Any = None, *, headers: Mapping[str, str] | None = None, **extra: Any
) -> Problem:
    """Makes the 409 of a lease or a lock; every one has the same members.

    :param lease: the one that another operation holds now; None: there is none, and the members are null.
    """
    if lease is not None:
        headers = {"Retry-After": str(retry_after(lease))}
    members: dict[str, Any] = {n: getattr(lease, n, None) for n in ("holder", "operation", "since", "expires_at")}
    return Problem(409, detail, headers=headers, **members, **extra)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "holder": {
            "type": ["string", "null"],
            "description": "Who has the operation lease now, if a lease or a lock is the conflict; null: it is free.",
        },
        "operation": {
            "type": ["string", "null"],
            "description": "The operation for which the holder has the lease.",
        },
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The first ids of the entities with the name, if several have it.",
        },
        "request_id": {"type": "string", "description": "The id of the request, as in X-OpenStack-Request-ID."},
        "since": {"type": ["string", "null"], "format": "date-time"},
        "expires_at": {"type": ["string", "null"], "format": "date-time"},
        "epoch": {"type": "string", "description": "The present epoch of the journal, if a position is not in it."},
        "oldest_seq": {"type": "integer", "description": "The oldest seq of which as_of can show the model."},
        "oldest_time": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "The oldest time of which as_of can show the model; null: none, only the seq.",
        },
        "min_version": {"type": "string", "description": "The oldest microversion, if the request has an unknown one."},
        "max_version": {"type": "string", "description": "The newest microversion, if the request has an unknown one."},
        "quota": {"type": "integer", "description": "The quota of the project, if it is exceeded."},
        "used": {"type": "integer", "description": "What the project has of the quota."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["in", "pointer", "detail"],
                "properties": {
                    "in": {"enum": ["query", "body", "header", "path"]},
                    "pointer": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
"""The JSON Schema of a problem."""


def install(app: falcon.App[Any, Any], more: Mapping[type[Exception], Callable[[Any], Problem]] = {}) -> None:
    """Makes the application answer every error with a problem.

    :param more: exception -> what makes its problem.
    """
    app.add_error_handler(Exception, _answer_unexpected)
    app.add_error_handler(falcon.HTTPError, _answer_http_error)
    app.add_error_handler(WatcherSyncError, _answer_own_error)
    app.add_error_handler(Problem, _answer)
    for cls, make in more.items():
        app.add_error_handler(cls, functools.partial(_answer_with, make))


def wsgi_answer(problem: Problem) -> tuple[str, list[tuple[str, str]], bytes]:
    """Returns status line, headers and body of a problem, for a WSGI middleware."""
    body = msgspec.json.encode(problem.document())
    headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), *problem.headers.items()]
    return falcon.code_to_http_status(problem.status), headers, body


def _answer(request: falcon.Request, response: falcon.Response, problem: Problem, _params: Any) -> None:
    document = problem.document()
    if (request_id := request.env.get(REQUEST_ID)) is not None:
        document["request_id"] = request_id
    response.status = falcon.code_to_http_status(problem.status)
    response.content_type = MEDIA_TYPE
    response.data = msgspec.json.encode(document)
    response.text = None
    response.set_headers(problem.headers)


def _answer_http_error(
    request: falcon.Request, response: falcon.Response, error: falcon.HTTPError, params: Any
) -> None:
    """Answers Falcon's errors of routing and parsing: 404, 405, 415 and others."""
    details = {
        404: f"{request.path} does not exist",
        405: f"{request.method} is not possible here",
    }
    headers = dict(error.headers or {})
    detail = details.get(error.status_code) or error.description or error.title or "The request is wrong"
    _answer(request, response, Problem(error.status_code, detail, headers=headers), params)


def _answer_own_error(request: falcon.Request, response: falcon.Response, error: WatcherSyncError, params: Any) -> None:
    """Answers the errors of the storage and of the operation leases."""
    if isinstance(error, TransactionConflict) and request.method not in ("GET", "HEAD"):
        detail = "Other writes hold what this one needs for too long; nothing was written"
        problem = lease_conflict(detail, headers={"Retry-After": "1"})
    elif isinstance(error, (DatabaseUnavailable, HeadMoved, SchemaMissing)):
        LOG.warning("%s %s: %s", request.method, request.path, error)
        detail = "The database is not available now"
        if isinstance(error, StatementTooLong):
            detail = "The database takes too long for this request; ask for less, or later"
        problem = Problem(503, detail, headers={"Retry-After": "2"})
    elif isinstance(error, FollowedEntity):
        problem = Problem(409, error.why)
    elif isinstance(error, InvalidEvent):
        problem = Problem(400, str(error))
    elif isinstance(error, RowRefused):
        problem = Problem(422, f"The database refuses a value: {error}")
    elif isinstance(error, OperationRunning):
        problem = lease_conflict(f"Another operation is in progress: {error}", error.lease)
    elif isinstance(error, StaleToken):
        detail = "The lease of the token has expired or was released"
        if error.lease is not None:
            detail = "Another operation has taken over the lease"
        problem = lease_conflict(detail, error.lease)
    elif isinstance(error, NoSuchOperation):
        problem = Problem(404, str(error))
    elif isinstance(error, ProofRefused):
        problem = Problem(403, "The operation belongs to another caller, or Operation-Secret is not its secret")
    elif isinstance(error, JournalPurged):
        problem = Problem(410, f"{error}; start from the lists")
    else:
        _answer_unexpected(request, response, error, params)
        return
    _answer(request, response, problem, params)


def _answer_with(
    make: Callable[[Any], Problem], request: falcon.Request, response: falcon.Response, error: Exception, params: Any
) -> None:
    """Answers an error of an extension."""
    _answer(request, response, make(error), params)


def _answer_unexpected(request: falcon.Request, response: falcon.Response, error: Exception, params: Any) -> None:
    """Logs the traceback, and answers 500 without it."""
    LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    _answer(request, response, Problem(500, "The server failed; its log has the reason"), params)
