# SPDX-License-Identifier: Apache-2.0
"""Each line about losses, actors and parsers names tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADMIN = ROOT / "doc" / "source" / "admin"
SECURITY = (ADMIN / "security.rst").read_text()
PAGES = {
    "guarantees": (ADMIN / "guarantees.rst").read_text(),
    "security": SECURITY[SECURITY.index("\nActors\n") : SECURITY.index("\nTrust per transport\n")],
}

_TEST = re.compile(r"``(tests/[\w/]+\.py)::(test_\w+)``")
_LINE = re.compile(r"^\* (.*(?:\n  .*)*)", re.MULTILINE)


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """The test functions of a module."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [line for text in PAGES.values() for line in _LINE.findall(text)],
    ids=lambda line: " ".join(line.split())[:60],
)
def test_each_line_names_tests_that_exist(line: str) -> None:
    named = _TEST.findall(line)
    assert named, "no test is named"
    assert [name for path, name in named if not (ROOT / path).is_file() or name not in names_in(path)] == []


@pytest.mark.parametrize(("page", "fewest"), [("guarantees", 30), ("security", 24)])
def test_the_page_has_lines(page: str, fewest: int) -> None:
    assert len(_LINE.findall(PAGES[page])) > fewest
