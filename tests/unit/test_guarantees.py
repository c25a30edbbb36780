# SPDX-License-Identifier: Apache-2.0
"""Each line of the page about losses names tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "doc" / "source" / "admin" / "guarantees.rst"

_TEST = re.compile(r"``(tests/[\w/]+\.py)::(test_\w+)``")
_LINE = re.compile(r"^\* (.*(?:\n  .*)*)", re.MULTILINE)


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """The test functions of a module."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.slow
@pytest.mark.parametrize("line", _LINE.findall(PAGE.read_text()), ids=lambda line: " ".join(line.split())[:60])
def test_each_line_names_tests_that_exist(line: str) -> None:
    named = _TEST.findall(line)
    assert named, "no test is named"
    assert [name for path, name in named if not (ROOT / path).is_file() or name not in names_in(path)] == []


def test_the_page_has_lines() -> None:
    assert len(_LINE.findall(PAGE.read_text())) > 30
