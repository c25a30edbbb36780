# SPDX-License-Identifier: Apache-2.0
"""What Nova's lists share: the caller, limit and marker, links and times."""

from __future__ import annotations

import datetime
from collections.abc import Container
from typing import Any, NamedTuple
from urllib.parse import urlencode

from watcher_sync.testing.openstack.identity import Token
from watcher_sync.testing.openstack.messages import ApiError, Request
from watcher_sync.testing.openstack.microversions import Version


class Call(NamedTuple):
    """A request with what is known of its caller."""

    request: Request
    token: Token
    version: Version
    max_limit: int
    rules: Container[str] = ()
    """Nova's rules that the user ``auditor`` passes, without ``os_compute_api:``."""

    def can(self, rule: str) -> bool:
        """Whether a policy lets the caller do this."""
        return self.token.user.is_admin or (self.token.user.name == "auditor" and rule in self.rules)

    def limit(self) -> int:
        """The size of the page. :raises ApiError: 400 for what is no number."""
        given = self.request.last("limit")
        if given is None:
            return self.max_limit
        if not (given.isascii() and given.isdigit()):
            message = f"Invalid input for query parameters limit. Value: {given}. '{given}' does not match '^[0-9]*$'"
            raise ApiError(400, message)
        return min(int(given), self.max_limit)

    def next_link(self, path: str, shown: int, last_id: str) -> str | None:
        """The URL of the next page; Nova gives one whenever the page is full.

        :param path: below ``/v2.1``, such as ``servers/detail``.
        """
        limit = self.limit()
        if not limit or shown < limit:
            return None
        parameters = [
            (name, value) for name, values in sorted(self.request.query.items()) if name != "marker" for value in values
        ]
        return f"{self.request.base}/v2.1/{path}?{urlencode([*parameters, ('marker', last_id)])}"

    def links(self, path: str) -> list[dict[str, str]]:
        """Those of one thing."""
        base = self.request.base
        return [{"rel": "self", "href": f"{base}/v2.1/{path}"}, {"rel": "bookmark", "href": f"{base}/{path}"}]


def refused(rule: str) -> ApiError:
    """The answer to what a rule of Nova's does not allow."""
    return ApiError(403, f"Policy doesn't allow os_compute_api:{rule} to be performed.")


def page(
    call: Call, path: str, items: list[dict[str, Any]], *, key: str = "id"
) -> tuple[list[dict[str, Any]], str | None]:
    """One page of a list, and the link to the next.

    :raises ApiError: 400 for a marker that is not in the list.
    """
    marker = call.request.last("marker")
    begin = 0
    if marker is not None:
        places = [i for i, item in enumerate(items) if str(item[key]) == marker]
        if not places:
            raise ApiError(400, f"marker [{marker}] not found")
        begin = places[0] + 1
    shown = items[begin : begin + call.limit()]
    return shown, call.next_link(path, len(shown), str(shown[-1][key])) if shown else None


def is_true(text: str | None) -> bool:
    """A boolean as Nova parses it."""
    return text is not None and text.strip().lower() in ("1", "t", "true", "on", "y", "yes")


def isotime(moment: datetime.datetime) -> str:
    """In seconds, with Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def naive(moment: datetime.datetime | None) -> str | None:
    """With microseconds and without a zone."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
