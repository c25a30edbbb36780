# SPDX-License-Identifier: Apache-2.0
"""The errors of the API: Status objects with code, reason and message.

Reasons and messages are those of apimachinery's ``pkg/api/errors``, because clients parse them. For example, a client
recognises "too large resource version" among timeouts by the cause in the details.
"""

from __future__ import annotations

from typing import Any

from watcher_sync.testing.kubernetes.resources import ResourceType


class ApiError(Exception):
    """A request ends with this Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        page: bytes | None = None,
    ) -> None:
        """:param page: HTML that a gateway sends instead of the Status."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.page = page

    def status(self) -> dict[str, Any]:
        """The Status object."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


def _details(resource: ResourceType, name: str) -> dict[str, Any]:
    return {"name": name, "kind": resource.plural, **({"group": resource.group} if resource.group else {})}


def not_found(resource: ResourceType, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_details(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: ResourceType, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: ResourceType, name: str, because: str | None = None) -> ApiError:
    because = because or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {because}'
    return ApiError(409, "Conflict", message, details=_details(resource, name))


def invalid(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {given}")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(what: str = "") -> ApiError:
    return ApiError(403, "Forbidden", f'forbidden: User "system:anonymous" cannot get path {what}'.rstrip())


def terminating(namespace: str) -> ApiError:
    """A creation in a namespace that is being deleted."""
    return ApiError(403, "Forbidden", f"unable to create new content in namespace {namespace}: it is being terminated")


def continue_expired() -> ApiError:
    """A page of a list whose snapshot is no more."""
    return ApiError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. "
        "You must start a new list without the continue parameter.",
    )


def too_old(version: int, oldest: int) -> ApiError:
    """A watch or an exact list from before what the history still holds."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def too_large(version: int, current: int) -> ApiError:
    """A list "not older than" what this server has not seen yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )


def no_watch_progress() -> ApiError:
    """A streamed list from an API server whose etcd cannot report the progress of a watch. It comes in the stream."""
    return ApiError(
        500,
        "InternalError",
        "Internal error occurred: the required storage feature RequestWatchProgress is disabled",
        details={"causes": [{"message": "the required storage feature RequestWatchProgress is disabled"}]},
    )
