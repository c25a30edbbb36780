# SPDX-License-Identifier: Apache-2.0
"""What one outlet publishes of the journal: kinds, projects, and fields whose changes matter.

An entity that comes into a wanted project is a creation for the log's readers, and one that leaves it a deletion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log import base
from watcher_sync.extensions.log.base import LogChange
from watcher_sync.extensions.log.change_log import LoggedRow
from watcher_sync.model.kinds import PROJECT_FIELD, Kind

_LAYOUT: Final = 2
"""Counts what messages look like. Another one needs a new snapshot."""


class OutletSelection:
    """The filter of one outlet. Any thread may use it."""

    def __init__(self, name: str, conf: cfg.ConfigOpts, kinds: Mapping[str, Kind]) -> None:
        """:raises ConfigError: an option names an unknown kind or field."""
        group = conf[f"outlet_{name}"]
        self._partition: str = group.partition
        self._kinds = frozenset(group.kinds)
        self._projects = frozenset(group.projects)
        self._fields = frozenset(group.fields)
        _require_known(f"[outlet_{name}] kinds", self._kinds, kinds)
        chosen = [kind for kind in kinds.values() if not self._kinds or kind.name in self._kinds]
        _require_known(f"[outlet_{name}] fields", self._fields, {field for kind in chosen for field in kind.fields})
        published = sorted((kind.name, kind.public) for kind in chosen)
        options = [_LAYOUT, published, sorted(self._projects), sorted(self._fields), self._partition, group.format]
        self.digest = hashlib.sha256(msgspec.json.encode(options)).hexdigest()
        """Of all that decides what a log has: a change of it needs a new snapshot. A plugin may bring kinds."""

    def changes(self, rows: Iterable[LoggedRow]) -> Iterator[LogChange]:
        """The wanted changes of some rows, with the partition; the last one of each commit says that it is."""
        last: LogChange | None = None
        for row in rows:
            change = None if row.change is None else self.select(row.change)
            if change is not None:
                if last is not None:
                    yield last
                last = msgspec.structs.replace(change, partition=self._partition, ends_commit=False)
            if row.ends_commit and last is not None:
                yield msgspec.structs.replace(last, ends_commit=True)
                last = None
        if last is not None:
            yield last

    def snapshot(self, entities: Iterable[LogChange]) -> Iterator[LogChange]:
        """The wanted entities of a snapshot, with the partition."""
        for entity in entities:
            if self._has_kind(entity) and self._has_project(entity.after):
                yield msgspec.structs.replace(entity, partition=self._partition)

    def select(self, change: LogChange) -> LogChange | None:
        """A change as this outlet publishes it; None: it does not."""
        if not self._has_kind(change):
            return None
        if self._projects and (was_wanted := self._has_project(change.before)) != self._has_project(change.after):
            if change.before is not None and change.after is not None and not self._has_project(change.actor):
                change = msgspec.structs.replace(change, actor=None)  # it would name the other project
            return _left(change) if was_wanted else _came(change)
        if self._projects and not was_wanted:
            return None
        if self._fields and change.change == base.UPDATED and self._fields.isdisjoint(change.delta):
            return None
        return change

    def _has_kind(self, change: LogChange) -> bool:
        return not self._kinds or change.kind in self._kinds

    def _has_project(self, owned: Mapping[str, Any] | None) -> bool:
        if not self._projects:
            return True
        return owned is not None and owned.get(PROJECT_FIELD) in self._projects


def _left(change: LogChange) -> LogChange:
    """The deletion of an entity that leaves the wanted projects, without what it is in the other one."""
    values = change.before or {}
    delta = {name: (value, None) for name, value in values.items() if name != "id" and value is not None}
    project_id = values.get(PROJECT_FIELD)
    return msgspec.structs.replace(change, change=base.DELETED, after=None, delta=delta, project_id=project_id)


def _came(change: LogChange) -> LogChange:
    """The creation of an entity that comes into a wanted project, without what it was in the other one."""
    values = change.after or {}
    delta = {name: (None, value) for name, value in values.items() if name != "id" and value is not None}
    return msgspec.structs.replace(change, change=base.CREATED, before=None, delta=delta, previous_seq=None)


def _require_known(option: str, names: frozenset[str], known: Iterable[str]) -> None:
    if unknown := names.difference(known):
        raise ConfigError(f"{option}: {', '.join(sorted(unknown))} is unknown; there are {', '.join(sorted(known))}")
