# SPDX-License-Identifier: Apache-2.0
"""Strict JSON: a fast decoder that refuses what lenient decoders accept, with the place in the reason.

It refuses duplicate keys, ``NaN``, ``Infinity``, lone surrogates and deep nesting.

Guaranteed: the result is that of the strictest reading of RFC 8259, and every string can be encoded as UTF-8. Not
guaranteed: precision beyond Python's (integers are exact, fractions are doubles).

``msgspec`` decodes, and the last of two equal keys wins. So the decoder counts colons or keys in the text and in
the result. Equal numbers prove that no key was lost. Otherwise the standard library reads the text again: it tells
duplicate keys from colons in strings, and it gives the reasons. Pure functions, for any thread.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import WatcherSyncError

MAX_SIZE: Final = 524288
"""Bytes that a document may have where the caller says nothing else."""

MAX_DEPTH: Final = 100
"""How many objects and lists may be nested in each other."""

_encode: Final = msgspec.json.Encoder().encode
_DECODER: Final = msgspec.json.Decoder()
_STRING_DECODER: Final = msgspec.json.Decoder(str)
_WRAPPERS: Final = (
    b'{"oslo.version": "2.0", "oslo.message": ',
    b'{"oslo.version":"2.0","oslo.message":',
)
"""How nearly every wrapper of oslo.messaging begins: as ``json.dumps`` writes it, and without spaces."""
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.\-]*")
_CONSTANTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|(-?Infinity|NaN)', re.DOTALL)
"""The constants outside of strings. Possessive, and a string without an end takes the rest: a linear time."""

_SURROGATES: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..)", re.DOTALL
)
"""The escapes of surrogates in JSON: a pair, which is the second group, or a half."""


class BadJson(WatcherSyncError):
    """The text is not strict JSON; the message says what is wrong, and where."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HalfPair(BadJson):
    """A text has half a surrogate pair, which Python writes for a byte that is no UTF-8."""


def with_whole_pairs(body: bytes) -> bytes:
    """The text with U+FFFD for each half of a surrogate pair, which is as long."""
    return _SURROGATES.sub(lambda found: found[1] + (found[2] or b"\\ufffd"), body)


def decode(body: bytes, *, max_size: int = MAX_SIZE, max_depth: int = MAX_DEPTH) -> Any:
    """The decoded document.

    :param body: UTF-8 text without a byte order mark.
    :param max_size: bytes it may have.
    :param max_depth: how deep it may be nested.
    :raises BadJson: with the reason, naming the byte offset or the path of the field.
    """
    if len(body) > max_size:
        raise BadJson(f"{len(body)} bytes are more than the {max_size} allowed")
    if (wrapper := _read_wrapper(body)) is not None:
        return wrapper
    try:
        tree = _DECODER.decode(body)
        # The encoding needs no check of its own: msgspec checks strings, and outside of strings JSON is ASCII.
    except UNDECODABLE as exc:
        _explain(body, max_depth, exc)
    # The search of one byte is several times as fast as that of two, and most texts have no backslash.
    if (b"\\" in body and b"\\u" in body) or body.count(b"{") + body.count(b"[") > max_depth:
        # The nesting may be too deep, or an escape may hide a colon: no other escape than \u can.
        if _count_keys(tree, max_depth) != body.translate(None, b" \t\r\n").count(b'":'):
            _refuse_duplicates(body)
    elif (again := _encode(tree)) != body and body.count(b":") != again.count(b":"):
        # A colon follows every key, and every other colon is part of a string. The encoder writes both as they are.
        # So a colon that the round trip loses belonged to a repeated key.
        _refuse_duplicates(body)
    return tree


def check_tree(tree: Any, *, max_depth: int = MAX_DEPTH) -> None:
    """Refuse in a decoded document what :func:`decode` refuses in a text. Duplicate keys are lost by then.

    :raises BadJson: for a number that is not finite, a lone surrogate, a key that is no string or deep nesting.
    """
    level = [tree]
    for _ in range(max_depth + 2):
        if not level:
            return
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is dict:
                below += node.values()
                below += node
                if not all(type(key) is str for key in node):
                    _refuse_bad_node(tree)
            elif kind is list or kind is tuple:
                below += node
            elif _is_bad_scalar(node):
                _refuse_bad_node(tree)
        level = below
    raise BadJson(f"nested deeper than {max_depth} levels")


def join(path: str, key: str | int) -> str:
    """The path of a member: ``payload.nova_object.data`` and ``memory_mb``, or a list and an index.

    A key that is no plain word is quoted, and a long one is cut, so that a reason stays one line.
    """
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _PLAIN.fullmatch(key):
        return f"{path}[{_show(key)}]"
    key = key if len(key) <= 64 else key[:61] + "..."
    return f"{path}.{key}" if path else key


def _read_wrapper(body: bytes) -> dict[str, str] | None:
    """The wrapper of oslo.messaging, if the text has its two members in the usual form; None: the general way decides.

    All between a prefix and the closing brace is one string, or the decoder refuses it. So no key can be repeated.
    """
    for prefix in _WRAPPERS:
        if body.startswith(prefix) and body.endswith(b'"}'):
            try:
                return {
                    "oslo.version": "2.0",
                    "oslo.message": _STRING_DECODER.decode(memoryview(body)[len(prefix) : -1]),
                }
            except UNDECODABLE:
                return None
    return None


def _count_keys(tree: Any, max_depth: int) -> int:
    """How many keys the tree has; level by level, so that no nesting can exhaust the stack."""
    keys = 0
    level: list[Any] = [tree] if type(tree) is dict or type(tree) is list else []
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise BadJson(f"nested deeper than {max_depth} levels")
        below: list[Any] = []
        for node in level:
            members = node
            if type(node) is dict:
                keys += len(node)
                members = node.values()
            for member in members:
                kind = type(member)
                if kind is dict or kind is list:
                    below.append(member)
        level = below
    return keys


class _Twice:
    """Marks an object with a duplicate key."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


class _Constant:
    """Marks NaN or an infinity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, value in pairs:
        if key in seen:
            return _Twice(key)
        seen.add(key)
        if isinstance(value, _Twice | _Constant):
            return {key: value}
    return found


def _number(text: str) -> Any:
    value = float(text)
    return value if math.isfinite(value) else _Constant(text if len(text) <= 32 else text[:29] + "...")


def _slow(text: str) -> Any:
    """The document, with a marker in place of what is wrong."""
    return json.loads(text, object_pairs_hook=_pairs, parse_constant=_Constant, parse_float=_number)


def _refuse_duplicates(body: bytes) -> None:
    tree = _slow(body.decode())
    found = _find(tree, lambda node: isinstance(node, _Twice))
    if found is not None:
        raise BadJson(_describe(found))


def _explain(body: bytes, max_depth: int, error: Exception) -> NoReturn:
    """Say why msgspec refused the text.

    :raises BadJson: always.
    """
    if not body or body.isspace():
        raise BadJson("empty body") from None
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise BadJson(f"not UTF-8 at byte {exc.start}") from None
    if isinstance(error, RecursionError):
        raise BadJson(f"nested deeper than {max_depth} levels") from None
    try:
        tree = _slow(text)
    except json.JSONDecodeError as exc:
        offset = len(text[: exc.pos].encode())
        raise BadJson(f"not JSON at byte {offset}: {exc.msg}") from None
    except RecursionError:
        raise BadJson(f"nested deeper than {max_depth} levels") from None
    except ValueError:
        raise BadJson("a number has too many digits") from None
    _refuse_bad_node(tree)
    constant = next((match for match in _CONSTANTS.finditer(body) if match[1]), None)
    where = f" at byte {constant.start(1)}" if constant else ""
    raise BadJson(f"not JSON{where}") from None


def _is_bad_scalar(node: Any) -> bool:
    kind = type(node)
    if kind is str:
        if node.isascii():
            return False
        try:
            node.encode()
        except UnicodeEncodeError:
            return True
        return False
    if kind is float:
        return not math.isfinite(node)
    return kind is not int and kind is not bool and node is not None


def _is_bad_node(node: Any) -> bool:
    kind = type(node)
    if kind is dict:
        return any(type(key) is not str or _is_bad_scalar(key) for key in node)
    return kind is not list and kind is not tuple and _is_bad_scalar(node)


def _find(tree: Any, bad: Any) -> tuple[str, Any] | None:
    """The first node in reading order for which ``bad`` holds, with its path."""
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending:
        path, node = pending.pop()
        if bad(node):
            return path, node
        if type(node) is dict:
            pending += [(join(path, key), value) for key, value in reversed(node.items())]
        elif type(node) is list or type(node) is tuple:
            pending += [(join(path, index), node[index]) for index in range(len(node) - 1, -1, -1)]
    return None


def _refuse_bad_node(tree: Any) -> None:
    """:raises BadJson: naming the first node that is no strict JSON, if there is one."""
    found = _find(tree, _is_bad_node)
    if found is not None:
        node = found[1]
        is_half = type(node) is str or (type(node) is dict and all(type(key) is str for key in node))
        raise (HalfPair if is_half else BadJson)(_describe(found)) from None


def _describe(found: tuple[str, Any] | None) -> str:
    path, node = found if found is not None else ("", None)
    where = path or "the document"
    if isinstance(node, _Twice):
        return f"duplicate key {join(path, node.key)}"
    if isinstance(node, _Constant):
        return f"{where} is {node.name}, which is no finite number"
    if type(node) is float:
        return f"{where} is {node!r}, which is no finite number"
    if type(node) is str:
        return f"{where} holds half a surrogate pair"
    if type(node) is dict:
        key = next((key for key in node if type(key) is not str or _is_bad_scalar(key)), "")
        if type(key) is str:
            return f"a key of {where} holds half a surrogate pair"
        return f"a key of {where} is a {type(key).__name__}, not a string"
    return f"{where} is a {type(node).__name__}, which is no JSON"


def _show(key: str) -> str:
    """A key as a JSON string, short, printable and encodable."""
    return json.dumps(key if len(key) <= 64 else key[:61] + "...")
