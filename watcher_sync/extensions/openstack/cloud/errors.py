# SPDX-License-Identifier: Apache-2.0
"""The failures of requests to an OpenStack cloud: a type for each kind, and which one an answer is.

A message has no address, because ``/readyz`` shows it.
"""

from __future__ import annotations

import datetime
import email.utils
import re
from typing import Any, Final

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import ReconcileError

DEFAULT_PAUSE_SECONDS: Final = 1.0
AWAY: Final = (502, 503, 504)
"""The statuses of a service that may be there again soon."""
_MAX_SHOWN: Final = 200
"""Characters of an error message that are shown."""


class CloudError(ReconcileError):
    """A request to the cloud failed.

    :ivar retry_after: seconds after which another attempt makes sense; None: in this run none makes sense.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CloudUnavailable(CloudError):
    """The service cannot be reached, does not answer in time, or answers with a server error."""


class CloudRequestRefused(CloudError):
    """The account may not do this: 401 or 403."""


class RateLimited(CloudError):
    """The service asks for a pause."""


class CloudNotFound(CloudError):
    """The resource does not exist: 404 of the service itself."""


class CloudBadRequest(CloudError):
    """The service rejects the request, such as a marker that does not exist any more: 400."""


class UnreadableAnswer(CloudError):
    """The answer is not the JSON that the API documents."""


class AnswerTooLarge(CloudError):
    """The body of the answer exceeds the limit."""


def _seconds(header: str | None, sent: str | None = None) -> float:
    """Read ``Retry-After``: a number of seconds, or a date.

    :param sent: the header ``Date``, because the date is by the clock of the service.
    """
    if header is not None and header.strip().isdecimal():
        return float(header)
    until = date_of(header)
    if until is None:
        return DEFAULT_PAUSE_SECONDS
    return max(0.0, (until - (date_of(sent) or datetime.datetime.now(datetime.UTC))).total_seconds())


def date_of(header: str | None) -> datetime.datetime | None:
    """Read a date of HTTP; None if there is none."""
    try:
        date = email.utils.parsedate_to_datetime(header or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=datetime.UTC)  # its zone is -0000


def error_of(service: str, path: str, response: Any) -> CloudError:
    """Return the failure that an answer is, by its status."""
    status, header = response.status_code, response.headers.get("Retry-After")
    if status == 429 or (status in AWAY and header is not None):
        pause = _seconds(header, response.headers.get("Date"))
        return RateLimited(f"{service}: {status}: it asks for a pause of {pause:.0f} s", pause)
    what = f"{service} {path}: {status}: {shown(_message(response))}"
    if status == 404 and _body(response) is None:  # a proxy that has no route to the service knows of no resource
        return CloudUnavailable(f"{what}; it is not the service that answers", 0.0)
    types: dict[int, type[CloudError]] = {
        400: CloudBadRequest,
        401: CloudRequestRefused,
        403: CloudRequestRefused,
        404: CloudNotFound,
    }
    if status in types:
        return types[status](what)
    if status < 500:
        return UnreadableAnswer(what)
    return CloudUnavailable(what, 0.0 if status in AWAY else None)


def _body(response: Any) -> dict[str, Any] | None:
    """Return the error that a service wrote; None: it is not the JSON that OpenStack's services write."""
    try:
        body = msgspec.json.decode(response.content)
    except UNDECODABLE:
        return None
    return body if isinstance(body, dict) else None


def _message(response: Any) -> str:
    """Return the message of an OpenStack error body, else the reason of the status line."""
    found = next(iter((_body(response) or {}).values()), None)
    return str(found["message"]) if isinstance(found, dict) and "message" in found else str(response.reason)


def shown(text: str) -> str:
    """Return a message in one line, cut and without addresses."""
    return " ".join(_URL.sub("(address)", text).split())[:_MAX_SHOWN]


_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)]+", re.IGNORECASE)
