# SPDX-License-Identifier: Apache-2.0
"""The entries of the option ``kinds``, and what their paths find in an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.extensions.kubernetes.wire.custom_kinds import CustomKind, parse_entries, parse_entry, split_name
from watcher_sync.wire.fields import title_of
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES

DOCUMENT = {
    "metadata": {"annotations": {"acme.example/zone": "z1"}},
    "status": {
        "phase": "Running",
        "interfaces": [{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}],
        "conditions": [
            "odd",
            {"type": "Live", "status": "False"},
            {"type": "Ready", "status": "True"},
            {"type": "Ready", "status": "second"},
        ],
        "replicas": 3,
        "paused": False,
    },
}


def found(path: str, document: Any = DOCUMENT) -> Any:
    custom = parse_entry(f"a.example/v1/Thing x={path}")
    assert custom.properties
    return (custom.read_properties(document) or {})["x"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".status.phase", "Running"),
        (".status.interfaces[1].ipAddress", "10.0.0.2"),
        ('.status.conditions[?type=="Ready"].status', "True"),
        (".status.conditions[?type=='Live'].status", "False"),
        ('.status.conditions[?(@.type == "Ready")].status', "True"),
        ('.status.conditions[?(@.type=="Ready")].type[?type=="x"]', None),
        ('.metadata.annotations["acme.example/zone"]', "z1"),
        (".metadata.annotations['acme.example/zone']", "z1"),
        ('["status"]["phase"]', "Running"),
        (".status.interfaces", [{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}]),
        (".status.paused", False),
        (".status.interfaces[2]", None),
        (".status.interfaces.ipAddress", None),
        (".status.phase[0]", None),
        (".status.phase.more", None),
        (".nothing.at.all", None),
        ('.status.conditions[?type=="Never"].status', None),
        ('.status[?type=="Ready"]', None),
    ],
)
def test_a_path_finds_its_value(path: str, value: Any) -> None:
    assert found(path) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Running", "Running"),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        ("", ""),
        ("x" * 255, "x" * 255),
        ("x" * 256, None),
        ("a\0b", None),
        (10**300, None),
        (None, None),
        ({"a": 1}, None),
        (["a"], None),
    ],
)
def test_a_state_is_a_text_or_unknown(value: Any, text: str | None) -> None:
    custom = parse_entry("a.example/v1/Thing state=.status")
    assert custom.state is not None
    assert custom.state.read_text({"status": value}) == text


def test_all_properties_together_fit_into_a_document() -> None:
    many = " ".join(f"{'n' * 60}{number}=.a[{number}]" for number in range(64))
    custom = parse_entry(f"a.example/v1/Thing {many}")
    for size in (8_000, 8_118, 8_119, 8_130, 9_000, 600_000):
        read = custom.read_properties({"a": ["x" * size] * 64})
        assert len(json.dumps(read, separators=(",", ":"))) <= MAX_DOCUMENT_BYTES
        assert (set(read.values()) == {None}) is (size > 8_118)


def test_one_property_that_is_too_large_or_too_deep_costs_only_itself() -> None:
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]
    custom = parse_entry("a.example/v1/Thing a=.a b=.b c=.c")
    assert custom.read_properties({"a": "x" * MAX_DOCUMENT_BYTES, "b": deep, "c": 1}) == {"a": None, "b": None, "c": 1}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("", "'' is neither group/Kind nor group/version/Kind"),
        ("Thing", "'Thing' is neither group/Kind nor group/version/Kind"),
        ("a.example/v1", "'a.example/v1' is neither group/Kind nor group/version/Kind"),
        ("a.example/v1/ state=.a", "'a.example/v1/' is neither group/Kind nor group/version/Kind"),
        (f"{'a' * 200}/v1/Thing", f"'{'a' * 200}/v1/Thing' is neither group/Kind nor group/version/Kind"),
        ("a.example/v1/Thing state", "a.example/v1/Thing: 'state' is not name=path"),
        ("a.example/v1/Thing state=", "a.example/v1/Thing: 'state=' is not name=path"),
        ("a.example/v1/Thing state=status", "a.example/v1/Thing: 'state=status' is not name=path"),
        ("a.example/v1/Thing x=.a state=.a[", "a.example/v1/Thing: 'state=.a[' is not name=path"),
        ("a.example/v1/Thing x=.a[*]", "a.example/v1/Thing: 'x=.a[*]' is not name=path"),
        ("a.example/v1/Thing x=.a,y=.b", "a.example/v1/Thing: 'x=.a,y=.b' is not name=path"),
        ("a.example/v1/Thing x=..a", "a.example/v1/Thing: 'x=..a' is not name=path"),
        ('a.example/v1/Thing x=.a[?(@.b=="c"]', "a.example/v1/Thing: 'x=.a[?(@.b==\"c\"]' is not name=path"),
        ("a.example/v1/Thing 1x=.a", "a.example/v1/Thing: '1x=.a' is not name=path"),
        ("a.example/v1/Thing x=.a x=.b", "a.example/v1/Thing: x is given twice"),
        (
            "a.example/v1/Thing " + " ".join(f"x{number}=.a" for number in range(65)),
            "a.example/v1/Thing: has more than 64 properties",
        ),
    ],
)
def test_an_entry_that_cannot_work_says_why(entry: str, says: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_entries([entry])
    assert str(raised.value).startswith(says)


def test_the_same_kind_twice_is_refused_in_whatever_version() -> None:
    with pytest.raises(ValueError, match=r"^Thing\.a\.example is given twice$"):
        parse_entries(["a.example/v1/Thing", "a.example/v2/Thing state=.a"])
    assert len(parse_entries(["a.example/v1/Thing", "b.example/v1/Thing", "v1/Thing"])) == 3


def test_an_entry_may_go_on_in_the_next_line() -> None:
    custom = parse_entry('a.example/v1/Thing\nstate=.a[?b=="c d"].e\n\towner=.o scope=.s\nx=.y')
    assert (custom.group, custom.version, custom.kind) == ("a.example", "v1", "Thing")
    assert None not in (custom.state, custom.owner, custom.scope)
    assert list(custom.properties) == ["x"]


def test_a_kind_without_properties_has_none() -> None:
    assert parse_entry("v1/Service").read_properties(DOCUMENT) is None


def test_a_title_has_the_group_where_the_kind_alone_is_no_name() -> None:
    assert [title_of(group, "StatefulSet") for group in ("", "apps", "apps.kruise.io")] == [
        "StatefulSet", "StatefulSet", "StatefulSet.apps.kruise.io",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.example/v1/Thing", ("a.example", "v1", "Thing")),
        ("a.example/Thing", ("a.example", "", "Thing")),
        ("apps/Deployment", ("apps", "", "Deployment")),
        ("vendor.example/Thing", ("vendor.example", "", "Thing")),
        ("v1.example/v2beta1/Thing", ("v1.example", "v2beta1", "Thing")),
        ("v1/Service", ("", "v1", "Service")),
        ("v1/v1/Service", None),
        ("Service", None),
        ("/Service", None),
        ("a.example//Service", None),
    ],
)
def test_a_name_has_a_group_or_a_version_or_both(name: str, found: tuple[str, str, str] | None) -> None:
    assert split_name(name) == found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc") | st.text(), inner, max_size=4),
    max_leaves=20,
)
STEPS = st.sampled_from([".a", ".b", "[0]", "[1]", '["c"]', "['a']", '[?a=="b"]', "[?(@.b=='a')]"])
PATHS = st.lists(STEPS, min_size=1, max_size=5).map("".join)


@settings(max_examples=500, deadline=None)
@given(path=PATHS, document=JSON)
def test_a_path_reads_any_document_without_an_error(path: str, document: Any) -> None:
    custom = parse_entry(f"a.example/v1/Thing state={path} x={path}")
    assert custom.state is not None
    text = custom.state.read_text(document)
    assert text is None or len(text) <= 255
    assert set(custom.read_properties(document) or ()) == {"x"}


@settings(max_examples=1000, deadline=None)
@given(
    entry=st.text()
    | st.text(alphabet="./[]?@()=\"' ab1\n").map("a.example/v1/Thing x=".__add__)
    | st.lists(STEPS | st.text(max_size=3), max_size=4).map(lambda parts: "a.example/v1/Thing x=" + "".join(parts))
)
def test_any_text_is_an_entry_or_a_value_error(entry: str) -> None:
    try:
        custom = parse_entry(entry)
    except ValueError:
        return
    assert isinstance(custom, CustomKind)
    custom.read_properties(DOCUMENT)
