# SPDX-License-Identifier: Apache-2.0
"""The change of one instance: the facets that an event owns, and copies of the others.

This is the path of nearly every event, so it builds no facet that the event cannot write. Pure functions, for any
thread.
"""

from __future__ import annotations

import functools
from typing import Final

from msgspec import UNSET

from watcher_sync.events import Event
from watcher_sync.extensions.openstack.handler import facets as payload_facets
from watcher_sync.extensions.openstack.handler.facets import Fields, Reader
from watcher_sync.extensions.openstack.handler.ordering import (
    copy_version,
    event_version,
    is_copy,
    is_doubtful,
    lock_copy_version,
)
from watcher_sync.extensions.openstack.handler.ownership import (
    DETAILS,
    FAULT,
    LOCK,
    PLACEMENT,
    POWER,
    STATE,
    TAGS,
    with_seen,
)
from watcher_sync.extensions.openstack.handler.payloads import DATA, InstanceData
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Change, Delete, Doubtful, Upsert, Version
from watcher_sync.model.kinds import kind_of
from watcher_sync.model.view import View

_POSITION: Final = kind_of(Instance).facet_position
_STATE_POSITION: Final = _POSITION[STATE]
_LOCK_POSITION: Final = _POSITION[LOCK]
_COMPARED: Final = tuple((facet, _POSITION[facet]) for facet in (STATE, POWER, PLACEMENT))
"""The facets in which an event of another clock may contradict what is known."""

_UNRECOVERED: Final = ("error", "building", "deleted")
"""States in which a fault stays, task or not."""


@functools.lru_cache(maxsize=64)
def _plan(owned: frozenset[str]) -> tuple[tuple[tuple[str, Reader], ...], tuple[tuple[str, Reader, int], ...], bool]:
    """How an event reads its payload.

    :returns: (facet, reader) of what it owns; (facet, reader, position of the version) of what it copies but for the
        lock; whether it copies the lock.
    """
    readers = payload_facets.READERS
    return (
        tuple((facet, reader) for facet, reader in readers.items() if facet in owned),
        tuple(
            (facet, reader, _POSITION[facet])
            for facet, reader in readers.items()
            if facet not in owned and facet is not LOCK and facet is not TAGS
        ),
        LOCK not in owned,
    )


def instance_changes(
    event: Event,
    view: View,
    data: InstanceData,
    owned: frozenset[str],
    more: dict[str, Fields],
    *,
    doubt: bool = False,
    failed: bool = False,
) -> tuple[Change, ...]:
    """The change of one instance, its doubt, and the sign of life of the publisher.

    :param owned: the facets that the event owns, as the payload has them.
    :param more: facets that it owns with other values than the payload has; changed here.
    :param doubt: whether the live system is to be asked soon.
    :param failed: whether the event reports a failure. What Nova saves after it, it often publishes not at all.
    """
    state = data.state
    version = event_version(event, state)
    if state == "deleted":
        if is_row_deleted(data):
            return with_seen(event, Delete("instance", data.id, version))
        doubt = True
    instance = view.get("instance", data.id)
    found = instance if isinstance(instance, Instance) else None
    known = found.versions if found is not None else None
    facets, versions = more, None
    owned_readers, copy_readers, copies_lock = _plan(owned)
    for facet, fields_of in owned_readers:
        if (fields := fields_of(data, found)) is not None:
            facets[facet] = fields
    if copy_readers:
        versions = _add_copies(facets, copy_readers, version, data, found, failed=failed)
    if copies_lock and data.locked is not UNSET and (known is None or is_copy(known[_LOCK_POSITION])):
        copied = lock_copy_version(version, data.locked)
        # An equal version changes nothing, and nearly all events of a second have it.
        if known is None or known[_LOCK_POSITION] != copied or not facets:
            facets[LOCK] = payload_facets.lock(data, found) or {}
            versions = {**(versions or {}), LOCK: copied}
    if data.task_state is None and STATE in owned and not failed and state not in _UNRECOVERED:
        facets[FAULT] = payload_facets.NO_FAULT
    if not facets:
        return with_seen(event)
    if found is None and (details := facets.get(DETAILS)):
        payload_facets.share_times(details)
    change = Upsert("instance", data.id, version, facets, versions)
    if doubt or failed or (found is not None and _overlaps(found, version, data, change)):
        return with_seen(event, change, Doubtful("instance", data.id))
    return with_seen(event, change)


def _add_copies(
    facets: dict[str, Fields],
    readers: tuple[tuple[str, Reader, int], ...],
    version: Version,
    data: InstanceData,
    found: Instance | None,
    *,
    failed: bool,
) -> dict[str, Version]:
    """Add the copied facets that no owner wrote so far.

    :returns: facet -> version of what was added.
    """
    versions: dict[str, Version] = {}
    copied = copy_version(version)  # one string in memory for all facets
    known = found.versions if found is not None else None
    for facet, fields_of, position in readers:
        if facet in facets or (known is not None and not is_copy(known[position])):
            continue
        if facet is PLACEMENT and (failed or data.task_state == "migrating"):
            continue  # it may be elsewhere by now
        if (fields := fields_of(data, found)) is not None:
            facets[facet] = fields
            versions[facet] = copied
    return versions


def is_row_deleted(data: InstanceData) -> bool:
    """Whether Nova deleted the row; a soft deletion sets ``deleted_at`` before the compute ends the instance."""
    if not data.deleted_at or not data.terminated_at:
        return bool(data.deleted_at)
    deleted = sortable.utc(data.deleted_at, f"{DATA}.deleted_at")
    return deleted >= sortable.utc(data.terminated_at, f"{DATA}.terminated_at")


def _overlaps(known: Instance, version: Version, data: InstanceData, change: Upsert) -> bool:
    """Whether the event may have been published before what is known, or after it, and says something else."""
    written = change.versions or ()
    compared, doubtful = None, False
    for facet, position in _COMPARED:
        fields = change.facets.get(facet)
        if not fields or facet in written:
            continue
        if (before := known.versions[position]) is not compared:  # most facets have one version
            compared, doubtful = before, is_doubtful(before, version)
        if not doubtful:
            continue
        for name, value in fields.items():
            if name != "updated_at" and getattr(known, name) != value:
                return not _follows(known, version, data)
    return False


def _follows(known: Instance, version: Version, data: InstanceData) -> bool:
    """Whether the payload says that it changed what is known, and the version agrees."""
    change = data.state_update
    if not change or version < known.versions[_STATE_POSITION]:
        return False
    transition = change.data
    if transition.old_task_state == transition.new_task_state and transition.old_state == data.state:
        return False  # no change of state: it tells nothing of the order
    return transition.old_state == known.state and transition.old_task_state == known.task_state
