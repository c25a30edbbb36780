# SPDX-License-Identifier: Apache-2.0
"""The name of each number says its unit, wherever an operator reads it; a number without one counts something."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from watcher_sync_cinder.kinds import KINDS as STORAGE
from watcher_sync_ironic.entities import BaremetalNode, BaremetalPort, BaremetalPortgroup

import watcher_sync
from watcher_sync.client import models
from watcher_sync.client.commands.cells import title
from watcher_sync.testing.kinds import builtin_kinds

UNITS = ("seconds", "bytes", "mb", "gb", "ratio", "percentage")

COUNTS = frozenset(
    str.split(
        "count deliveries depth entities initial lag lag_changes limit max max_scale_level merged min more nodes page "
        "pageSize quota reconnects replicas ready_replicas updated_replicas resourceCount restarts scaleLevel total "
        "total_volumes troubled used vcpus free_vcpus reserved_vcpus used_vcpus changes gaps redelivered commits "
        "ignored refused disabled down"
    )
)
"""What they count is their name."""

NUMBERS = frozenset(
    str.split(
        "after as_of code from generation head id last_notify_status marker newest_id next_since number "
        "observed_generation oldest_seq pid previous_sequence published_seq seq sequence sequenceID since status "
        "stream_epoch stream_sequence to token"
    )
)
"""Names of something: a position, an id, a status of HTTP."""

ELSEWHERE = {
    "last_event_age": "seconds",
    "min_notify_interval": "seconds",
    "size": "bytes",
    "wait": "seconds",
    "whole_size": "bytes",
}
"""Those whose unit is in their description."""

METRICS = frozenset(
    str.split(
        "journal_seq build_info leading connected source_connected stale source_stale database_up breaker_open "
        "publishing streams_ended vnf_instances_waiting"
    )
)
"""A position, states, and counts whose name does not end in what they count."""


def has_unit(name: str) -> bool:
    return name.rpartition("_")[2] in UNITS


def numbers(schema: Any, name: str = "", text: str = "") -> Iterator[tuple[str, str]]:
    """(name, description) of each property or parameter of a JSON Schema that may be a number."""
    if isinstance(schema, list):
        for each in schema:
            is_parameter = isinstance(each, dict) and {"in", "name", "schema"} <= each.keys()
            described = {"description": each.get("description", ""), **each["schema"]} if is_parameter else each
            yield from numbers(described, each["name"] if is_parameter else name, text)
    elif isinstance(schema, dict):
        types, text = schema.get("type"), schema.get("description", text)
        if name and {"integer", "number"} & set(types if isinstance(types, list) else [types]):
            yield name.replace("-", "_"), text
        for key, value in schema.items():
            if key == "properties":
                for each, below in value.items():
                    yield from numbers(below, each)
            elif key not in ("default", "enum", "example", "examples"):
                inherits = key in ("anyOf", "items", "oneOf", "allOf")
                yield from numbers(value, *((name, text) if inherits else ()))


def metrics() -> Iterator[tuple[str, str]]:
    """(name, text) of each metric in the code, without the prefix."""
    for path in Path(watcher_sync.__path__[0]).rglob("*.py"):
        if "prometheus_client" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and len(node.args) >= 2:
                name, text = (_literal(argument).removeprefix("watcher_sync") for argument in node.args[:2])
                if re.fullmatch("[a-z_]+", name) and text.endswith("."):
                    yield name.lstrip("_"), text


def _literal(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_literal, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize("name", ["latency", "memory", "uptime", "cache_size", "delay_ms", "disk_mib"])
def test_a_name_without_a_unit_would_be_noticed(name: str) -> None:
    assert not has_unit(name)
    assert name not in COUNTS | NUMBERS | ELSEWHERE.keys() | METRICS


def test_each_number_of_a_kind_has_its_unit_and_keeps_it_in_the_title_of_a_column() -> None:
    kinds = builtin_kinds()
    for cls in (*STORAGE, BaremetalNode, BaremetalPort, BaremetalPortgroup):
        kinds.add(cls)
    names = {f.name for kind in kinds.values() for f in kind.fields.values() if f.python in (int, float)}
    assert {name for name in names if not has_unit(name)} <= COUNTS | NUMBERS
    units = {name: name.rpartition("_")[2] for name in names if has_unit(name)}
    assert {"memory_mb", "disk_gb"} <= units.keys()
    assert all(title(name).rpartition(" ")[2].lower() == unit for name, unit in units.items())
    assert (title("memory_mb"), title("disk_gb")) == ("Memory MB", "Disk GB")


def test_each_number_of_the_rest_api_has_its_unit(client: Any) -> None:
    found = set(numbers(client.simulate_get("/openapi.json").json))
    assert ("lag_seconds" in dict(found), len(found) > 50) == (True, True)
    assert {name for name, _ in found if not has_unit(name)} <= COUNTS | NUMBERS | ELSEWHERE.keys()
    for name, text in found:
        assert ELSEWHERE.get(name, "") in text.lower(), (name, text)


def test_each_number_of_the_client_that_a_column_shows_has_its_unit() -> None:
    structs = [each for each in vars(models).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    names = {
        name
        for struct in structs
        for name, hint in typing.get_type_hints(struct).items()
        if {int, float} & {hint, *typing.get_args(hint)}
    }
    assert "lag_seconds" in names
    assert {name for name in names if not has_unit(name)} <= COUNTS | NUMBERS | ELSEWHERE.keys()


def test_each_metric_has_its_unit_as_prometheus_wants_it() -> None:
    found = set(metrics())
    assert {"commit_seconds", "stored_bytes"} <= dict(found).keys()
    for name, text in found:
        unit = re.search("^(?:seconds|the time of)|bytes", text, re.IGNORECASE)
        if unit is not None:
            assert name.endswith("bytes" if "bytes" in unit[0].lower() else "seconds"), (name, text)
        assert has_unit(name) or name.endswith("s") or name in METRICS, name
