# SPDX-License-Identifier: Apache-2.0
"""Encodes changes so that the log takes each of them, in portions of a bounded size.

A writer of an entity decides how large its changes are, and the log decides what it takes. A change above the log's
limit is published without its old and new values. If that does not suffice, the entity itself is omitted, and its
id remains: a *marker*, which says that the entity exists. So no entity stops the log for the other ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from oslo_log import log as logging

from watcher_sync.extensions.log.base import ChangeTooLarge, LogChange, LogPositions, Outlet, OutletError
from watcher_sync.extensions.log.metrics import OutletStats
from watcher_sync.model.kinds import PROJECT_FIELD

LOG = logging.getLogger(__name__)

MIN_LIMIT: Final = 32_768
"""Every marker fits into these bytes, whatever its id, versions and cause are."""
PORTION_BYTES: Final = 8 * 1024 * 1024
"""Bodies that are in memory and are published at once. One change alone may have more."""
_LOG_SECONDS: Final = 60.0
"""Between two lines about one kind."""
_VALUES: Final = ("old", "new")
_ENTITY: Final = "entity"


class Fitting:
    """Of one outlet, for the thread of its publisher.

    :ivar detail: what did not fit since the outlet was opened, in one line; empty: everything did.
    """

    def __init__(self, outlet: Outlet, stats: OutletStats, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.detail = ""
        self._outlet = outlet
        self._stats = stats
        self._monotonic = monotonic
        self._count = 0
        self._learned = math.inf
        """Bytes that the log takes, as its refusals tell."""
        self._logged: dict[str, float] = {}
        """Kind -> when a line about it was logged."""

    def begin(self) -> None:
        """The outlet was opened.

        :raises OutletError: its log takes so little that a marker may not fit.
        """
        self.detail, self._count = "", 0
        outlet = self._outlet
        limit = min(math.inf if outlet.limit is None else outlet.limit, self._learned)
        outlet.limit = int(limit) if limit < math.inf else None
        if limit < MIN_LIMIT:
            raise OutletError(
                f"the log takes messages of {limit} bytes, and {MIN_LIMIT} are needed: raise {outlet.limit_names}"
            )

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish a portion, and learn from a refusal: half of what is refused is tried next.

        :raises OutletError: as :meth:`Outlet.publish`.
        """
        try:
            return self._outlet.publish(changes)
        except ChangeTooLarge as exc:
            if exc.limit is None:
                largest = max(len(change.body) for change in changes)
                self._learned = max(largest // 2, min(largest - 1, MIN_LIMIT))
            else:
                self._learned = exc.limit
            raise

    def portions(self, changes: Iterable[LogChange]) -> Iterator[list[LogChange]]:
        """The changes with their bodies. A portion ends with a commit, unless the commit alone is larger."""
        portion: list[LogChange] = []
        size = whole = 0
        for change in map(self._fitted, changes):
            while portion and size + len(change.body) > PORTION_BYTES:
                end, whole = whole or len(portion), 0
                yield portion[:end]
                portion = portion[end:]
                size = sum(len(each.body) for each in portion)
            portion.append(change)
            size += len(change.body)
            if change.ends_commit:
                whole = len(portion)
        if portion:
            yield portion

    def _fitted(self, change: LogChange) -> LogChange:
        outlet = self._outlet
        body = outlet.encode(change)
        if outlet.limit is not None and len(body) > outlet.limit:
            size = len(body)
            for change in _smaller(change):  # noqa: B020 - the last one is a marker, which fits
                body = outlet.encode(change)
                if len(body) <= outlet.limit:
                    break
            self._report(change, size)
        return msgspec.structs.replace(change, body=body)

    def _report(self, change: LogChange, size: int) -> None:
        self._stats.omitted += 1
        self._count += 1
        what = (
            f"{change.kind} {change.id!a} at seq {change.seq} has {size} bytes, and the log takes"
            f" {self._outlet.limit}: published without {', '.join(change.omitted)}; raise {self._outlet.limit_names}"
        )
        self.detail = f"changes that are too large for the log: {self._count}; the last one: {what}"
        now = self._monotonic()
        if now >= self._logged.get(change.kind, now):
            self._logged[change.kind] = now + _LOG_SECONDS
            LOG.warning("outlet %s: %s", self._outlet.name, what)


def _smaller(change: LogChange) -> Iterator[LogChange]:
    """The change without its values, and then as a marker."""
    if change.before is not None or change.delta:
        change = msgspec.structs.replace(change, before=_identity(change.before), delta={}, omitted=_VALUES)
        yield change
    if change.after is not None:
        yield msgspec.structs.replace(change, after=_identity(change.after), omitted=(*change.omitted, _ENTITY))


def _identity(entity: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What remains of an entity: whose it is, and which. None means that there is none, so None remains."""
    return entity and {name: entity[name] for name in ("id", PROJECT_FIELD) if name in entity}
