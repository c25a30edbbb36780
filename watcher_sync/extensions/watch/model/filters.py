# SPDX-License-Identifier: Apache-2.0
"""An index over the filters of any number of topics.

A filter is a key of five parts: group, kind, kind and name of the scope, name. Each part is exact or ``*``. The index
searches a resource under each combination of exact parts and ``*`` that a filter has. So there are at most 32 look-ups,
however many topics there are. The rest of the cost is the number of topics that match.

An index is immutable; many threads may use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from watcher_sync.extensions.watch.model.topics import ANY, TYPES, TopicFilter
from watcher_sync.extensions.watch.wire.descriptions import ChangeType, ResourceDescription

Key = tuple[str, str, str, str, str]
"""Group, kind, kind and name of the scope, name."""
Topic = TypeVar("Topic", bound=Hashable)

_UPDATES: Final = frozenset({ChangeType.UPDATED, ChangeType.SUBRESOURCE_UPDATED})


def filter_type(change_type: ChangeType) -> str:
    """The type of filters that let such a change pass."""
    return "updated" if change_type in _UPDATES else change_type.value


def key_of(resource: ResourceDescription) -> Key:
    """The key of a resource; a resource without a scope has empty parts there."""
    scope = resource.scope
    if scope is None:
        return (resource.group, resource.kind, "", "", resource.name)
    return (resource.group, resource.kind, scope.kind, scope.name, resource.name)


def passes(each: TopicFilter, key: Key, wanted_type: str) -> bool:
    """Whether one filter lets a change pass; what the index answers for many filters at once."""
    return wanted_type in each.types and all(
        part in (ANY, value) for part, value in zip(_key_of_filter(each), key, strict=True)
    )


class FilterIndex(Generic[Topic]):
    """Finds the topics that let a change pass.

    :param topics: pairs of a topic, or what represents it, and its filters.
    """

    def __init__(self, topics: Iterable[tuple[Topic, Iterable[TopicFilter]]]) -> None:
        found: dict[str, dict[Key, dict[Topic, None]]] = {each: {} for each in TYPES}
        for topic, filters in topics:
            for each in filters:
                for wanted_type in each.types:
                    found[wanted_type].setdefault(_key_of_filter(each), {})[topic] = None
        self._by_type = {name: {key: tuple(names) for key, names in keys.items()} for name, keys in found.items()}
        self._shapes = {name: _shapes(keys) for name, keys in self._by_type.items()}

    def matching(self, change_type: ChangeType, resource: ResourceDescription) -> set[Topic]:
        """The topics that let the change of a resource pass."""
        return self.matching_key(filter_type(change_type), key_of(resource))

    def matching_key(self, wanted_type: str, key: Key) -> set[Topic]:
        """As :meth:`matching`, for a type of filters and the key of a resource."""
        keys = self._by_type[wanted_type]
        group, kind, scope_kind, scope_name, name = key
        found: set[Topic] = set()
        for any_group, any_kind, any_scope_kind, any_scope_name, any_name in self._shapes[wanted_type]:
            topics = keys.get(
                (
                    ANY if any_group else group,
                    ANY if any_kind else kind,
                    ANY if any_scope_kind else scope_kind,
                    ANY if any_scope_name else scope_name,
                    ANY if any_name else name,
                )
            )
            if topics:
                found.update(topics)
        return found


Shape = tuple[bool, bool, bool, bool, bool]
"""Which parts of a key are ``*``."""
_ALL_SHAPES: Final[tuple[Shape, ...]] = tuple(itertools.product((False, True), repeat=5))  # type: ignore[arg-type]


def _shapes(keys: Iterable[Key]) -> tuple[Shape, ...]:
    """The shapes that any of the keys has."""
    present = {tuple(part == ANY for part in key) for key in keys}
    return tuple(shape for shape in _ALL_SHAPES if shape in present)


def _key_of_filter(each: TopicFilter) -> Key:
    return (each.group, each.kind, each.scope.kind, each.scope.name, each.name)
