# SPDX-License-Identifier: Apache-2.0
"""The changes of the facet ``liveness`` of a host. Pure functions.

There are two witnesses. Nova's list of services reports a state. The host's own events are signs of life, and their
absence is silence.

* The list says up: the host is up.
* The list says down: the host is down, unless the host published an event after the list was read.
* The host is silent: it is down.
* The host is down, and it published a newer event: it is up.

A host that neither witness reported has no liveness. A host that is forced down is down by its derived ``state``; the
list says nothing more of it.
"""

from __future__ import annotations

import datetime
from typing import Final

from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.entities import ComputeNode

SERVICE_DOWN: Final = "Nova reports that its compute service is down"
SILENT: Final = "silent while other hosts published"


def by_service(
    node: ComputeNode, *, up: bool, at: datetime.datetime, last_heard: datetime.datetime | None
) -> Upsert | None:
    """The change after Nova's list of services reported a state.

    :param at: when the list was requested, aware UTC.
    :param last_heard: when the host published its last event.
    :returns: None if nothing changes.
    """
    if up:
        return None if node.liveness == "up" else _change(node, None, at)
    if node.liveness == "down" or node.forced_down or (last_heard is not None and last_heard > at):
        return None
    return _change(node, SERVICE_DOWN, at)


def by_events(
    node: ComputeNode, *, at: datetime.datetime, last_heard: datetime.datetime | None, silent: bool | None
) -> Upsert | None:
    """The change after a check of the host's own events.

    :param at: now, aware UTC.
    :param last_heard: when the host published its last event.
    :param silent: whether the host is silent while others publish; None if this engine received no event of it.
    :returns: None if nothing changes.
    """
    if node.liveness != "down":
        return _change(node, SILENT, at) if silent else None
    if node.liveness_reason == SILENT:
        speaks = silent is False
    else:
        since = node.liveness_since
        speaks = last_heard is not None and (since is None or last_heard > since)
    return _change(node, None, at) if speaks else None


def _change(node: ComputeNode, reason: str | None, at: datetime.datetime) -> Upsert:
    """The version is the time of the observation, so the newer observation wins."""
    fields = {"liveness": "up" if reason is None else "down", "liveness_reason": reason, "liveness_since": at}
    return Upsert("compute_node", node.id, Version(sortable.digits(at, "liveness_since")), {"liveness": fields})
