# SPDX-License-Identifier: Apache-2.0
"""Odd messages of a log: bytes, JSON of any form, and true messages with something else in them."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any, Final

from hypothesis import strategies as st

from watcher_sync.extensions.log import base, formats

EPOCH: Final = "e"
_TIME: Final = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
_DEEPEST: Final = 30_000
"""Lists in each other that a message of 64 KB has room for."""


def message(
    change: str = base.CREATED,
    entity_id: str = "a",
    *,
    seq: int = 1,
    form: str = formats.CLOUDEVENTS,
    omitted: tuple[str, ...] = (),
    **fields: Any,
) -> bytes:
    """A true message; the begin or the end of a snapshot has no entity."""
    is_marker = change in (base.SNAPSHOT_BEGIN, base.SNAPSHOT_END)
    entity = None if is_marker else {"id": entity_id, **fields}
    return formats.encoder_of(form)(
        base.LogChange(
            partition="p",
            epoch=EPOCH,
            seq=seq,
            change=change,
            kind="" if is_marker else "instance",
            id="" if is_marker else entity_id,
            time=_TIME,
            delta={name: (None, value) for name, value in fields.items()},
            before=entity if change == base.DELETED else None,
            after=None if change == base.DELETED else entity,
            omitted=omitted,
        )
    )


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


WORST: Final = {
    "bytes": b"\xff\x00nonsense",
    "nothing": b"",
    "deep": nested(30_000),
    "deep where nothing is read": b'{"further": ' + nested(30_000) + b"}",
    "an id that is a list": message(form=formats.DEBEZIUM).replace(b'"id":"a"', b'"id":["a"]'),
    "an id with NUL": message(entity_id="a\0b"),
    "an entity without an id": message().replace(b'"entity":{"id":"a"}', b'"entity":{}'),
    "another entity": message().replace(b'"entity":{"id":"a"}', b'"entity":{"id":"b"}'),
    "not UTF-8": message(name="x").replace(b'"x"', b'"\xff"'),
    "a kind without a form": message().replace(b'"kind":"instance"', b'"kind":"In Stance"'),
    "a kind of 60 kB": message().replace(b'"kind":"instance"', b'"kind":"%s"' % (b"k" * 60_000)),
    "an epoch of 4,400 digits": message().replace(b'"epoch":"e"', b'"epoch":"%s"' % (b"9" * 4400)),
    "an epoch with a separator": message().replace(b'"epoch":"e"', b'"epoch":"e@1"'),
    "a negative seq": message(seq=-1),
    "a seq of 64 bits": message(seq=2**63),
}
"""What the forms refuse, each for another reason."""

_ODD_VALUES: Final = [
    b"null", b"true", b"{}", b"[]", b'["a"]', b"-1", b"1.5", b"1e999", b"9223372036854775807", b"9223372036854775808",
    b"9" * 5000, b'""', b'"a\\u0000"', b'"\\ud800"', b'"' + b"x" * 300 + b'"', b'"' + b"x" * 60_000 + b'"', b'"\xff"',
    b'"a@b"', b'"2026-01-02T00:00:00"', b'"0001-01-01T00:00:00+23:59"', nested(120), nested(600), nested(_DEEPEST),
]  # fmt: skip
_MARK: Final = "!odd!"


def _places(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all members."""
    if not isinstance(tree, dict):
        return []
    return [each for name in tree for each in [(*path, name), *_places(tree[name], (*path, name))]]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A true message with another value at one place, or a further member."""
    form = draw(st.sampled_from([formats.CLOUDEVENTS, formats.DEBEZIUM]))
    change = draw(st.sampled_from([base.CREATED, base.DELETED, base.SNAPSHOT, base.SNAPSHOT_BEGIN, base.SNAPSHOT_END]))
    tree = copy.deepcopy(json.loads(message(change, "odd", seq=2, form=form, name="x", metadata={"a": "b"})))
    *above, name = draw(st.sampled_from([*_places(tree), ("further",)]))
    node = tree
    for each in above:
        node = node[each]
    node[name] = _MARK
    return json.dumps(tree).encode().replace(json.dumps(_MARK).encode(), draw(st.sampled_from(_ODD_VALUES)))


@st.composite
def spliced(draw: st.DrawFn) -> bytes:
    """A true message with other bytes in it."""
    body = message(
        entity_id="odd", seq=2, name="x", form=draw(st.sampled_from([formats.CLOUDEVENTS, formats.DEBEZIUM]))
    )
    start = draw(st.integers(0, len(body)))
    return body[:start] + draw(st.binary(max_size=20)) + body[start + draw(st.integers(0, 20)) :]


_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=9), below, max_size=3),
    max_leaves=8,
)

ODD: Final = st.one_of(
    st.binary(max_size=200),
    _VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(_ODD_VALUES),
    st.integers(1, _DEEPEST).map(nested),
    mutated(),
    spliced(),
)
"""Messages of up to 64 KB. A few of them are true ones."""
