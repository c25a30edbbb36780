# SPDX-License-Identifier: Apache-2.0
"""Lists: the version of a collection that the server answers, and one page of it.

``resourceVersion`` has the meaning of the table in the API's documentation ("Resource versions"). Unset and "0" mean
the newest version. With a limit or ``resourceVersionMatch=Exact`` the given version is meant exactly; otherwise "not
older than". A continue token names its snapshot and the last key. It expires with the history, or by
:meth:`Lists.expire`.
"""

from __future__ import annotations

import base64
import bisect
import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.resources import ResourceType
from watcher_sync.testing.kubernetes.selectors import Test, selector
from watcher_sync.testing.kubernetes.store import Item, Object, Store


class ListQuery(msgspec.Struct, kw_only=True):
    """What a list may be asked for."""

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    token: str = ""
    """The continue token."""
    version: str = ""
    match: str = ""
    """resourceVersionMatch."""


class SimulatedPage(NamedTuple):
    items: Sequence[Item]
    metadata: Object


class _Token(msgspec.Struct):
    version: int
    after: str
    era: int


class Lists:
    """Answers lists from the store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._era = 0

    def expire(self) -> None:
        """All continue tokens handed out so far are too old from now on."""
        with self._lock:
            self._era += 1

    def page(self, resource: ResourceType, query: ListQuery) -> SimulatedPage:
        """:raises ApiError: 410 for a token or version that is too old, 504 for one that is too large, 400
        for parameters that make no sense."""
        chosen = selector(query.label_selector, query.field_selector)
        after = ""
        if query.token:
            token = self._token(query)
            after = token.after
            try:
                snapshot = self._store.snapshot(resource, token.version)
            except errors.ApiError as exc:
                raise errors.continue_expired() from exc
        else:
            snapshot = self._store.snapshot(resource, self._version(query))
        keys, items = snapshot.of(query.namespace)
        metadata: Object = {"resourceVersion": str(snapshot.version)}
        begin = bisect.bisect_right(keys, after) if after else 0
        if not query.limit and not begin and chosen is None:
            return SimulatedPage(items, metadata)
        page, end = _take(items, begin, query.limit, chosen)
        if end < len(items):
            token = _Token(snapshot.version, keys[end - 1], self._era)
            metadata["continue"] = base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")
            if chosen is None:
                metadata["remainingItemCount"] = len(items) - end
        return SimulatedPage(page, metadata)

    def _token(self, query: ListQuery) -> _Token:
        if query.version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        try:
            encoded = query.token + "=" * (-len(query.token) % 4)
            token = msgspec.json.decode(base64.urlsafe_b64decode(encoded), type=_Token)
        except ValueError as exc:
            raise errors.bad_request("continue key is not valid") from exc
        if token.era != self._era:
            raise errors.continue_expired()
        return token

    def _version(self, query: ListQuery) -> int | None:
        """The version to answer; None for the newest."""
        if query.match and not query.version:
            raise errors.invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if query.match not in ("", "Exact", "NotOlderThan"):
            raise errors.invalid(f"resourceVersionMatch: unsupported value {query.match!r}")
        if query.version in ("", "0"):
            return None
        version = parse_version(query.version)
        if query.match == "Exact" or (query.limit and not query.match):
            return version
        if version > self._store.version:
            raise errors.too_large(version, self._store.version)
        return None


def parse_version(text: str) -> int:
    """:raises ApiError: 400 for what is not a resource version."""
    if not text.isascii() or not text.isdigit():
        raise errors.bad_request(f"Invalid value: {text!r}: resourceVersion: not a number")
    return int(text)


def _take(items: Sequence[Item], begin: int, limit: int, chosen: Test | None) -> tuple[Sequence[Item], int]:
    """Up to ``limit`` of them that the selector lets through, and where the next page begins."""
    if chosen is None:
        end = begin + limit if limit else len(items)
        return items[begin:end], min(end, len(items))
    page: list[Item] = []
    for position in range(begin, len(items)):
        if chosen(items[position]):
            page.append(items[position])
            if limit and len(page) == limit:
                return page, position + 1
    return page, len(items)
