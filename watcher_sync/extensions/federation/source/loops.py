# SPDX-License-Identifier: Apache-2.0
"""Loops: installations that follow each other, so that entities come back with ever longer prefixes.

The follower that sees its own site in an id leaves the entity out, and names the loop in the detail of its source.
Nothing of that reaches the other side. So each follower asks its region for the loops that it refuses.

A region knows only names that followers gave to what they follow. The last link of a loop is to the installation that
refuses it. If a follower gave its region another name, the loop does not lead over this follower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from oslo_log import log as logging

from watcher_sync.client import ClientError, Forbidden
from watcher_sync.client.models import Source
from watcher_sync.extensions.federation.source.options import RegionSettings
from watcher_sync.extensions.federation.source.region import Region
from watcher_sync.sources.base import SourceState

LOG = logging.getLogger(__name__)

_ASK_SECONDS: Final = 60.0
_LOOP: Final = "loop "
_FOLLOWS: Final = " -> "
_FOLLOWING: Final = (SourceState.CONNECTED.value, SourceState.DISCONNECTED.value)
"""The states of a source that refuses a loop. An older release disconnects it."""


def loop_of(site: str, entity_id: str) -> str:
    """The sites of a loop, each of which follows the next one.

    :param entity_id: shows the loop; see :func:`~watcher_sync.extensions.federation.source.states.is_loop`.
    """
    sites = entity_id.split(":")[:-1]
    return _FOLLOWS.join((site, *sites[: sites.index(site) + 1]))


def refused_loops(site: str, sources: Iterable[Source]) -> list[str]:
    """What the sources of a region say of loops that lead over a follower of the region.

    :param site: the name that the follower gave to the region.
    """
    found = []
    for source in sources:
        if source.state not in _FOLLOWING or not source.detail.startswith(_LOOP):
            continue
        loop = source.detail.removeprefix(_LOOP).partition(":")[0]
        sites = loop.split(_FOLLOWS)
        if len(sites) > 2 and (sites[-1], sites[-2]) == (sites[0], site):
            found.append(f"the source {source.source} of the region refuses the loop {loop}")
    return found


class RefusedLoops:
    """The loops over this source that its region refuses. The thread of the follower calls it.

    It asks the region at the first call after a connection, and then once a minute. A failure changes nothing.
    """

    def __init__(
        self, settings: RegionSettings, region: Region, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._region = region
        self._monotonic = monotonic
        self._ask_at = -math.inf
        self._detail = ""

    def connected(self) -> None:
        """Ask again at the next call: the source was connected again."""
        self._ask_at = -math.inf

    def detail(self) -> str:
        """A line for the detail of the source; empty: there is no loop, or the account may not ask."""
        if self._monotonic() >= self._ask_at:
            self._ask_at = self._monotonic() + _ASK_SECONDS
            self._note(self._asked())
        return self._detail

    def _asked(self) -> str:
        try:
            found = refused_loops(self._settings.site, self._region.client.sources())
        except Forbidden:
            return ""
        except ClientError as exc:
            LOG.debug("source %s: the region does not list its sources: %s", self._settings.source, exc)
            return self._detail
        return "; ".join([*found, "remove one of the sources of the loop"]) if found else ""

    def _note(self, detail: str) -> None:
        """Log what changed."""
        if detail and detail != self._detail:
            LOG.warning("source %s: %s", self._settings.source, detail)
        elif self._detail and not detail:
            LOG.info("source %s: the region refuses no loop any more", self._settings.source)
        self._detail = detail
