# SPDX-License-Identifier: Apache-2.0
"""What of an entity's fields is hidden from a reader, and documents and deltas without it. Pure.

The policy of the API decides what is hidden from which reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

Hidden = Mapping[str, tuple[str, ...]]
"""Field -> dotted paths of the members that a reader does not see; no path: it does not see the field."""

NOTHING_HIDDEN: Final[Hidden] = MappingProxyType({})


def hidden_of(
    kind: str,
    owner: str | None,
    project_id: str | None,
    hidden: Mapping[str, Hidden],
    unowned: Mapping[str, Hidden],
) -> Hidden:
    """What a reader does not see of an entity.

    :param owner: the project of the entity; None: it belongs to none.
    :param project_id: the only project whose entities the reader sees; None: it sees those of all.
    :param hidden: kind -> what the reader does not see of any entity.
    :param unowned: kind -> what it does not see of an entity that is not of its project; without a kind: as of its own.
    """
    if project_id is not None and owner != project_id and kind in unowned:
        return unowned[kind]
    return hidden.get(kind, NOTHING_HIDDEN)


def whole(hidden: Hidden) -> list[str]:
    """The fields that are hidden as a whole."""
    return [name for name, members in hidden.items() if not members]


def seen(document: dict[str, Any], hidden: Hidden) -> dict[str, Any]:
    """Returns the fields of a document that the reader sees."""
    if hidden.keys().isdisjoint(document):
        return document
    return {
        name: _without(value, hidden[name]) if name in hidden else value
        for name, value in document.items()
        if hidden.get(name) != ()
    }


def seen_delta(delta: Mapping[str, tuple[Any, Any]], hidden: Hidden) -> dict[str, tuple[Any, Any]]:
    """The fields of a delta that the reader sees, and in which it sees a difference."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (old, new) in delta.items():
        members = hidden.get(name)
        if members is None:
            found[name] = (old, new)
        elif members and (was := _without(decoded(old), members)) != (now := _without(decoded(new), members)):
            found[name] = (was, now)
    return found


def decoded(value: Any) -> Any:
    """A value of a delta that may still be JSON."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _without(value: Any, members: tuple[str, ...]) -> Any:
    """A copy of an object, or of the objects of a list, without these members."""
    if isinstance(value, list):
        return [_without(each, members) for each in value]
    if not isinstance(value, dict):
        return value
    here = {member for member in members if "." not in member}
    below: dict[str, list[str]] = {}
    for member in members:
        name, dot, rest = member.partition(".")
        if dot:
            below.setdefault(name, []).append(rest)
    return {
        name: _without(each, tuple(below[name])) if name in below else each
        for name, each in value.items()
        if name not in here
    }
