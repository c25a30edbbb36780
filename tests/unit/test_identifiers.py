# SPDX-License-Identifier: Apache-2.0
"""The names of the package use the field's terms, as its prose does: a precise word exists for each of these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import watcher_sync

ROOT = Path(watcher_sync.__file__).parent

BANNED = {
    "told": "reported, given",
    "heard": "seen, received",
    "lot": "portion, batch",
    "lots": "portions, batches",
    "said": "reported, or the name of the message",
    "trouble": "problem, reason",
    "troubles": "problems, reasons",
    "lives": "is in, runs in",
    "anew": "again",
    "asking": "request",
}
"""Word of an identifier -> what to write instead."""

PUBLIC = {"last_heard"}
"""Names that a user sees."""


def defined(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of what a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_the_words_of_an_identifier_are_found() -> None:
    assert words("_last_heardFrom_URL2") == ["last", "heard", "from", "url"]


def test_no_identifier_has_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: write {BANNED[word]}"
        for path in sorted(ROOT.rglob("*.py"))
        if not path.stem.endswith("_pb2")
        for line, name in defined(path)
        if name not in PUBLIC
        for word in words(name)
        if word in BANNED
    ]
    assert found == []
