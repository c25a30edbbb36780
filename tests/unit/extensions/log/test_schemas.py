# SPDX-License-Identifier: Apache-2.0
"""Each published change is as its schema says, and a schema refuses what is wrong."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.extensions.log.histories import histories
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import LogChange
from watcher_sync.extensions.log.formats import CLOUDEVENTS, DEBEZIUM, encoder_of
from watcher_sync.extensions.log.schemas import FORMATS, message_schema
from watcher_sync.model.kinds import Kind
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()
EACH = pytest.mark.parametrize(("format_name", "kind"), [(f, k) for f in FORMATS for k in KINDS.values()], ids=str)


@functools.cache
def validator(format_name: str, kind: Kind) -> jsonschema.Draft202012Validator:
    schema = message_schema(format_name, kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@functools.cache
def example(format_name: str, kind: Kind, change: str = "updated") -> str:
    """A message in which the fields have their defaults."""
    entity = kind.cls(id="1")
    values = kind.to_json(entity)
    before, after = {"created": (None, values), "updated": (values, values), "deleted": (values, None)}[change]
    document = LogChange(
        partition="p",
        epoch="e",
        seq=7,
        change=change,
        kind=kind.name,
        id="1",
        time=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        before=before,
        after=after,
    )
    return encoder_of(format_name)(document).decode()


def is_valid(format_name: str, kind: Kind, wrong: Callable[[Any], object], change: str = "updated") -> bool:
    """Whether a message is valid after one thing of it was made wrong."""
    message = json.loads(example(format_name, kind, change))
    assert validator(format_name, kind).is_valid(message)
    wrong(message)
    return validator(format_name, kind).is_valid(message)


@EACH
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_each_change_of_a_history_is_as_the_schema_says(format_name: str, kind: Kind, data: st.DataObject) -> None:
    for change in data.draw(histories(kind)):
        validator(format_name, kind).validate(json.loads(encoder_of(format_name)(change)))


@EACH
def test_a_field_of_another_type_is_refused_whichever_it_is(format_name: str, kind: Kind) -> None:
    holders = {CLOUDEVENTS: ["data"], DEBEZIUM: []}[format_name]
    for name, field in kind.fields.items():
        value: Any = "text" if field.python in (dict, list) else {"an": "object"}
        for member in ("entity", "old", "new") if holders else ("before", "after"):

            def break_field(message: Any, member: str = member, name: str = name, value: Any = value) -> None:
                functools.reduce(dict.__getitem__, holders, message)[member][name] = value

            assert not is_valid(format_name, kind, break_field), (member, name)


@pytest.mark.parametrize(
    ("format_name", "path"),
    [
        *((CLOUDEVENTS, f"data.{name}") for name in ("seq", "epoch", "partition", "change", "kind", "id", "entity.id")),
        *((CLOUDEVENTS, name) for name in ("id", "type", "dataschema", "data", "data.previous_seq", "data.versions")),
        *((DEBEZIUM, f"source.{name}") for name in ("seq", "epoch", "name", "table", "previous_seq", "snapshot")),
        *((DEBEZIUM, name) for name in ("op", "before", "after", "source", "ts_ms", "after.id", "before.id")),
    ],
)
def test_a_message_without_a_member_is_refused(format_name: str, path: str) -> None:
    *folders, name = path.split(".")
    assert not is_valid(
        format_name, KINDS["instance"], lambda message: functools.reduce(dict.__getitem__, folders, message).pop(name)
    )


@pytest.mark.parametrize(
    ("format_name", "change", "wrong"),
    [
        (CLOUDEVENTS, "deleted", lambda m: m["data"].update(entity={"id": "1"})),
        (CLOUDEVENTS, "updated", lambda m: m["data"].update(entity=None)),
        (CLOUDEVENTS, "updated", lambda m: m["data"]["entity"].update(unknown=1)),
        (CLOUDEVENTS, "updated", lambda m: m["data"].update(seq="7")),
        (CLOUDEVENTS, "updated", lambda m: m["data"].update(kind="pod")),
        (CLOUDEVENTS, "updated", lambda m: m.update(type="watcher_sync.pod.updated")),
        (DEBEZIUM, "deleted", lambda m: m.update(op="u")),
        (DEBEZIUM, "created", lambda m: m.update(before=m["after"])),
        (DEBEZIUM, "updated", lambda m: m.update(after=None)),
        (DEBEZIUM, "updated", lambda m: m["source"].update(seq=-1)),
        (DEBEZIUM, "updated", lambda m: m["source"].update(table="pod")),
    ],
)
def test_what_contradicts_the_change_is_refused(format_name: str, change: str, wrong: Callable[[Any], object]) -> None:
    assert not is_valid(format_name, KINDS["instance"], wrong, change)


def test_a_format_that_does_not_exist_has_no_schema() -> None:
    with pytest.raises(ConfigError):
        message_schema("xml", KINDS["instance"])
