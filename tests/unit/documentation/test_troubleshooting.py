# SPDX-License-Identifier: Apache-2.0
"""Each line of the troubleshooting chapter is one that the code writes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "doc" / "source" / "admin" / "troubleshooting.rst"

GAP = "\0"
"""A value, in a quoted line and in the text of the code."""

DIRECTIVE = re.compile(r"%[-+#0 ]*[0-9]*(?:\.[0-9]+)?[sdgrfxic]")


def quoted() -> list[str]:
    """The literals of the first column of each table, with gaps."""
    cells = re.findall(r"^   \* - (.*(?:\n {7}.*)*)", PAGE.read_text(), re.MULTILINE)
    literals = [literal for cell in cells for literal in re.findall(r"``([^`]+)``", " ".join(cell.split()))]
    return [re.sub(r"<[^>]+>", GAP, literal) for literal in literals if " " in literal and literal != "source list"]


def written() -> str:
    """All texts of the code with their values replaced by gaps."""
    texts = []
    for file in sorted((ROOT / "watcher_sync").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(DIRECTIVE.sub(GAP, node.value))
            elif isinstance(node, ast.JoinedStr):
                texts.append("".join(p.value if isinstance(p, ast.Constant) else GAP for p in node.values))
    return "\n".join(texts)


@pytest.fixture(scope="module")
def code() -> str:
    return written()


def test_the_page_has_many_lines():
    assert len(quoted()) > 30


@pytest.mark.slow
def test_each_quoted_line_is_written_by_the_code(code):
    missing = [line for line in quoted() if not is_written(line, code)]
    assert missing == []


@pytest.mark.slow
def test_a_line_that_the_code_does_not_write_is_found(code):
    assert is_written(f"source {GAP}: disconnected: {GAP}; retrying", code)
    assert not is_written(f"source {GAP}: separated: {GAP}; retrying", code)
    assert not is_written(f"{GAP}: disconnected: nothing {GAP}", code)


def is_written(line: str, code: str) -> bool:
    """A gap of the line may be a gap of the code, or some words and gaps of it."""
    pattern = "[^\n]*?".join(re.escape(part) for part in line.split(GAP))
    return re.search(pattern, code) is not None
