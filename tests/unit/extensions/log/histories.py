# SPDX-License-Identifier: Apache-2.0
"""Generated histories of entities of any kind, as changes that an outlet publishes."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from watcher_sync.extensions.log.base import LogChange
from watcher_sync.model.kinds import Kind

_TEXTS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(_TEXTS, max_size=4), st.lists, max_leaves=4
)
_TIMES = st.datetimes(timezones=st.just(datetime.UTC))


def values_of(declared: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a type that a field is declared with."""
    match declared:
        case msgspec.inspect.Metadata(type=inner):
            return values_of(inner)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.StrType(min_length=least, max_length=most, pattern=None):
            return st.text(_TEXTS, min_size=least or 0, max_size=min(most or 8, 8))
        case msgspec.inspect.StrType(pattern=str() as pattern):
            return st.from_regex(pattern, fullmatch=True)
        case msgspec.inspect.IntType(ge=least, le=most):
            return st.integers(-(2**31) if least is None else least, 2**31 if most is None else most)
        case msgspec.inspect.FloatType(ge=least, le=most):
            return st.floats(least, most, allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.DateTimeType():
            return _TIMES
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(values_of(item), max_size=3)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=3)
        case msgspec.inspect.AnyType():
            return _JSON
    raise AssertionError(f"no values of {declared}")


@st.composite
def histories(draw: st.DrawFn, kind: Kind) -> list[LogChange]:
    """An entity that is created, updated and deleted, and is in a snapshot."""
    fields = st.fixed_dictionaries(
        {name: values_of(msgspec.inspect.type_info(field.type)) for name, field in kind.fields.items()}
    )
    states: list[dict[str, Any] | None] = [None]
    for _ in range(2):
        values = draw(fields)
        kind.check_values(values)
        states.append(kind.to_json(kind.cls(id="entity/1", **values)))
    states.append(None)
    changes = [
        _change(kind, seq, what, *states[seq - 1 : seq + 1])
        for seq, what in enumerate(("created", "updated", "deleted"), 1)
    ]
    return [*changes, _change(kind, 2, "snapshot", None, states[2])]


def _change(kind: Kind, seq: int, what: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> LogChange:
    names = [] if what == "snapshot" else list(kind.fields)
    pairs = {name: ((before or {}).get(name), (after or {}).get(name)) for name in names}
    return LogChange(
        partition="region-1",
        epoch="1f0e",
        seq=seq,
        change=what,
        kind=kind.name,
        id="entity/1",
        time=datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        previous_seq=seq - 1 or None,
        delta={name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
        before=before,
        after=after,
        versions=dict.fromkeys(kind.facets, "2026-01-02T03:04:05Z"),
        event_id="1",
        event_type="x.y",
        source="nova",
        actor={"id": "u", "project_id": None, "request_id": "req-1"} if seq == 1 else None,
        project_id=(after or before or {}).get("project_id"),
    )
