# SPDX-License-Identifier: Apache-2.0
"""Strict JSON: what the specification allows comes through unchanged, all else is refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watcher_sync.wire import json as wire_json
from watcher_sync.wire.json import BadJson

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(['":', 'a":b', 'a" :b', '\\":', "10:20:30", '"'])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : "), ("\n,", "\t:\r\n")])


def oracle(text: str) -> Any:
    """The standard library, made strict by hooks."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise ValueError("duplicate")
        return dict(items)

    def constant(name: str) -> Any:
        raise ValueError(name)

    def number(digits: str) -> float:
        if not math.isfinite(float(digits)):
            raise ValueError(digits)
        return float(digits)

    tree = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    json.dumps(tree, ensure_ascii=False).encode()
    return tree


@pytest.mark.slow
@given(DOCUMENTS, SEPARATORS, st.booleans())
def test_what_the_standard_library_writes_is_read_back_the_same(
    document: Any, separators: tuple[str, str], ascii_only: bool
) -> None:
    body = json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode()
    read = wire_json.decode(body)
    assert json.dumps(read) == json.dumps(document)
    wire_json.check_tree(read)


TOKENS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"a"',
        '"b"',
        '":"',
        '"\\":"',
        " ",
        "\n",
        "1",
        "-1.5",
        "1e999",
        "NaN",
        "Infinity",
        "null",
        "true",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        "\ufeff",
        '"\u00e9"',
        "01",
        "'",
    ]
)


@st.composite
def objects_as_text(draw: st.DrawFn, depth: int = 3) -> str:
    """Objects written by hand, so that keys may stand twice and whitespace anywhere."""
    space = st.sampled_from(["", "", " ", "\n", "\t\r "])
    key = st.sampled_from(['"a"', '"b"', '"\\":"', '"\\u0061"', '"a\\\\"'])
    value = st.sampled_from(["1", '"x"', '"\\":"', '"\\" :"', "null", "NaN", "[]"])
    if depth:
        value = st.one_of(value, objects_as_text(depth=depth - 1))
    members = draw(st.lists(st.tuples(space, key, space, space, value, space), max_size=4))
    return "{" + ",".join(f"{a}{k}{b}:{c}{v}{d}" for a, k, b, c, v, d in members) + "}"


@pytest.mark.slow
@given(st.one_of(objects_as_text(), st.lists(TOKENS, max_size=12).map("".join), st.text()))
@example('{"a":1,"a" :2}')
@example('{"a":"\\":","a" :2}')
@example('{"a\\\\":1,"a\\\\":2}')
def test_a_text_is_refused_exactly_when_a_strict_standard_library_refuses_it(text: str) -> None:
    try:
        expected, good = oracle(text), True
    except ValueError:
        expected, good = None, False
    try:
        body = text.encode()
    except UnicodeEncodeError:
        return
    if good:
        assert json.dumps(wire_json.decode(body)) == json.dumps(expected)
    else:
        with pytest.raises(BadJson) as caught:
            wire_json.decode(body)
        assert 0 < len(caught.value.reason) < 300
        caught.value.reason.encode()


PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            ":",
            '":',
            "{",
            "[",
            "u003a",
            "\\",
            '"',
            "\n",
            "/",
            "é",
            "\\u003a",
            "\\u0022",
            "\\u005c",
            "\\u0061",
            "\\ud83d\\ude00",
            "\\ud800",
            "\\/",
            "\\\\u003a",
            "\\\\\\u003a",
        ]
    ),
    max_size=4,
).map(lambda pieces: '"' + "".join(_ESCAPED.get(piece, piece) for piece in pieces) + '"')
"""String literals: quotes, backslashes and colons, each as it is and as an escape."""

_ESCAPED = {"\\": "\\\\", '"': '\\"', '":': '\\":', "\n": "\\n"}


@st.composite
def objects_with_escapes(draw: st.DrawFn, depth: int = 2) -> str:
    """Objects whose keys and strings are full of escapes, with the separators of an encoder."""
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    value = st.one_of(PIECES, PIECES, st.just("1"))
    if depth:
        value = st.one_of(value, objects_with_escapes(depth=depth - 1))
    members = draw(st.lists(st.tuples(PIECES, value), max_size=3))
    return "{" + comma.join(f"{key}{colon}{value}" for key, value in members) + "}"


def refusal(body: bytes) -> str | None:
    """What the slow way says of a text: every key read by the standard library."""
    try:
        tree = msgspec.json.decode(body)
        wire_json._count_keys(tree, wire_json.MAX_DEPTH)
        wire_json._refuse_duplicates(body)
    except BadJson as refused:
        return refused.reason
    except msgspec.MsgspecError:
        return ""
    return None


@pytest.mark.slow
@given(st.one_of(objects_with_escapes(), objects_with_escapes().map(lambda text: json.dumps({"a": "2.0", "b": text}))))
@example('{"a": "1", "\\u0061": "2"}')
@example('{"a":"b","a":"\\u003a"}')
@example('{"a": "b", "a": ":"}')
@example('{"a":"\\\\u003a","a":"b"}')
@example('{"a":"\\\\\\u003a","a":"b"}')
@example('{"a\\"":"b","a\\"":"b"}')
@example('{"a": "b", "a": "b", "c": "d"}')
def test_a_text_with_escapes_is_read_or_refused_exactly_as_the_slow_way_does(text: str) -> None:
    body = text.encode()
    expected = refusal(body)
    if expected is None:
        assert json.dumps(wire_json.decode(body)) == json.dumps(oracle(text))
    else:
        with pytest.raises(BadJson) as caught:
            wire_json.decode(body)
        assert expected in ("", caught.value.reason)


def test_a_wrapper_of_oslo_messaging_is_read_without_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    message = json.dumps({"payload": {"name": 'a:"b\\', "host": "\u00e9"}})
    wrapper = {"oslo.version": "2.0", "oslo.message": message}
    monkeypatch.setattr(wire_json, "_slow", lambda _text: pytest.fail("read twice"))
    for separators in ((", ", ": "), (",", ":")):
        assert wire_json.decode(json.dumps(wrapper, separators=separators).encode()) == wrapper


WRAPPERS = ('{"oslo.version": "2.0", "oslo.message": ', '{"oslo.version":"2.0","oslo.message":')


@given(st.sampled_from(WRAPPERS), st.lists(PIECES | st.sampled_from([",", ":", " ", "{}", "1"]), max_size=6))
@example(WRAPPERS[0], ['"a"', ",", '"oslo.message"', ":", '"b"'])
@example(WRAPPERS[1], ['"a"', ",", '"oslo.version"', ":", '"2.0"'])
@example(WRAPPERS[1], ['"\\ud800"'])
@example(WRAPPERS[1], ['"a"', " "])
def test_a_text_that_begins_as_a_wrapper_is_read_or_refused_as_any_other(prefix: str, tokens: list[str]) -> None:
    body = f"{prefix}{''.join(tokens)}}}".encode()
    try:
        expected = wire_json.decode(b" " + body)  # the general way, as no wrapper begins so
    except BadJson:
        with pytest.raises(BadJson):
            wire_json.decode(body)
    else:
        assert wire_json.decode(body) == expected


@given(st.binary(max_size=40))
def test_no_bytes_at_all_raise_anything_but_bad_json(body: bytes) -> None:
    try:
        wire_json.check_tree(wire_json.decode(body))
    except BadJson as refused:
        assert refused.reason  # noqa: PT017 - most bodies are refused, some are not


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty body"),
        (b" \n", "empty body"),
        (b'{"a": }', "not JSON at byte 6: Expecting value"),
        ('{"é": }'.encode(), "not JSON at byte 7: Expecting value"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (
            b'{"payload": {"nova_object.data": {"memory_mb": NaN}}}',
            "payload.nova_object.data.memory_mb is NaN, which is no finite number",
        ),
        (b'{"a": [1, {"b": -Infinity}]}', "a[1].b is -Infinity, which is no finite number"),
        (b'{"a": 1e999}', "a is 1e999, which is no finite number"),
        (b'{"a": {"b": 1, "c": [], "b": 2}}', "duplicate key a.b"),
        (b'[{"x": {"a":1,"a" :2}}]', "duplicate key [0].x.a"),
        (b'{"a": "\\ud800"}', "a holds half a surrogate pair"),
        (b'{"\\ud800": 1}', "a key of the document holds half a surrogate pair"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100 levels"),
        (b"[" * 100000, "nested deeper than 100 levels"),
        (b'{"a":' * 50000 + b"1" + b"}" * 50000, "nested deeper than 100 levels"),
        (b"NaN", "the document is NaN, which is no finite number"),
        (b'{"a b": NaN}', '["a b"] is NaN, which is no finite number'),
        (b"\xef\xbb\xbf{}", "not JSON at byte 0: Unexpected UTF-8 BOM (decode using utf-8-sig)"),
        (b'{"a": 1} x', "not JSON at byte 9: Extra data"),
    ],
)
def test_the_reason_names_the_place(body: bytes, reason: str) -> None:
    with pytest.raises(BadJson) as caught:
        wire_json.decode(body)
    assert caught.value.reason == reason == str(caught.value)


def test_a_body_over_the_limit_is_refused_unread_and_one_at_the_limit_is_read() -> None:
    body = json.dumps("x" * 98).encode()
    assert wire_json.decode(body, max_size=100) == "x" * 98
    with pytest.raises(BadJson, match="101 bytes are more than the 100 allowed"):
        wire_json.decode(body + b" ", max_size=100)


def test_a_nesting_of_the_allowed_depth_is_read() -> None:
    tree = wire_json.decode(b"[" * 100 + b"]" * 100)
    wire_json.check_tree(tree)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"a": [0, float("nan")]}, "a[1] is nan, which is no finite number"),
        ({"a": {"b": "x\udc00"}}, "a.b holds half a surrogate pair"),
        ({"a": {"\ud800": 1}}, "a key of a holds half a surrogate pair"),
        ({"a": {1: 1}}, "a key of a is a int, not a string"),
        ({"a": b"x"}, "a is a bytes, which is no JSON"),
    ],
)
def test_a_decoded_tree_with_what_no_json_can_say_is_refused_by_path(tree: Any, reason: str) -> None:
    with pytest.raises(BadJson) as caught:
        wire_json.check_tree(tree)
    assert caught.value.reason == reason


def test_a_tree_that_holds_itself_is_too_deep() -> None:
    tree: dict[str, Any] = {}
    tree["again"] = tree
    with pytest.raises(BadJson, match="nested deeper"):
        wire_json.check_tree(tree)


@given(st.lists(st.sampled_from(["\\ud83d", "\\ude80", "\\\\", "\\u0041", "a", "\\n"]), max_size=8).map("".join))
def test_halves_of_surrogate_pairs_become_replacement_characters_and_pairs_stay(escapes: str) -> None:
    text = f'{{"key": "{escapes}"}}'.encode()
    lenient = json.loads(text)["key"]
    expected = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in lenient)
    whole = wire_json.with_whole_pairs(text)
    assert wire_json.decode(whole) == {"key": expected}
    assert len(whole) == len(text)
