# SPDX-License-Identifier: Apache-2.0
"""The hosts of an aggregate: those of its last list, and those that joined since.

Two requests at once each read the hosts, add their own, and publish what they read. So the list of
``aggregate.add_host.end`` proves its own host only. The lists of the other events are authoritative. An aggregate has
the hosts of its last list and those of all later joins, in any order of arrival.

The version of the facet is that of the last list; with later joins ``<last join>+<last list>+<joins>``. So it grows
with each event that changes the hosts, in any order. Pure functions, for any thread.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from watcher_sync.extensions.openstack.kinds import Aggregate
from watcher_sync.model.changes import NEVER, Version, base_of, is_after
from watcher_sync.model.kinds import kind_of

HOSTS: Final = "hosts"
"""The facet."""
MAX_JOINS: Final = 64
"""Joins that are remembered. With more of them, a list that is older than all of these is ignored."""

_POSITION: Final = kind_of(Aggregate).facet_position[HOSTS]
_RECONCILED: Final = "~"
"""What the reconciler adds to the version of an older list."""

Members = tuple[dict[str, Any], Version]
"""The fields of the facet, and its version."""


def listed(known: Aggregate | None, hosts: Collection[str], version: Version) -> Members:
    """The members after a list of hosts."""
    return _members(set(hosts), _joins_after(known, version), version)


def joined(known: Aggregate | None, host: str, version: Version) -> Members | None:
    """The members after one host has joined; None if a newer list says whether it is a member."""
    last = NEVER if known is None else _last_list(known)
    if version <= last:
        return None
    joins = {**_joins_after(known, last), version: host}
    if len(joins) > MAX_JOINS:
        last = Version(min(joins))
        del joins[last]
    return _members({*((known and known.hosts) or ()), host}, joins, last)


def _members(hosts: set[str], joins: dict[str, str], last_list: Version) -> Members:
    fields = {"hosts": sorted(hosts.union(joins.values())), "joins": dict(sorted(joins.items())) or None}
    return fields, Version(f"{max(joins)}+{last_list}+{len(joins):02d}") if joins else last_list


def _joins_after(known: Aggregate | None, version: Version) -> dict[str, str]:
    joins = (known and known.joins) or {}
    return {when: host for when, host in joins.items() if when > version}


def _last_list(known: Aggregate) -> Version:
    """The version of the last list. One that a reconciliation wrote is as new as the last join before it."""
    stored = known.versions[_POSITION]
    first, has_joins, rest = (written := base_of(stored)).partition("+")
    if _RECONCILED in written:
        return Version(first.partition(_RECONCILED)[0] + _RECONCILED)
    return Version(rest.partition("+")[0] if has_joins and not is_after(stored) else first)
