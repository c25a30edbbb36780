# SPDX-License-Identifier: Apache-2.0
"""Counts lines of code by room: the core, each extension, the client and the simulated systems.

A code line has a token of Python; blank lines, comments, docstrings and generated modules do not count.
``tests/unit/test_size.py`` holds the numbers. As a hook at each commit it prints what the commit adds and removes::

    $ python -m tests.checks.size --commit
    code +31 -12 core, +4 -40 webhooks

Without an argument it prints the code lines of each room.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "watcher_sync/"

_ROOMS: Final = (
    (r"extensions/(\w+)/.*", None),
    (r"client/.*", "client"),
    (r"(?:testing|demo)/.*", "testing"),
)
"""Pattern of a path below the package -> its room; None: the group is the room. Anything else is the core."""


def room_of(path: str) -> str:
    """The room of a module.

    :param path: relative to the package, such as ``wire/json.py``.
    """
    for pattern, room in _ROOMS:
        if match := re.fullmatch(pattern, path):
            return room or match[1]
    return "core"


def code_lines(source: str) -> list[str]:
    """The lines of a module that have code, in their order."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            value = getattr(statement, "value", None) if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.update(range(statement.lineno, statement.end_lineno + 1))
    there: set[int] = set()
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in ignored:
            there.update(range(token.start[0], token.end[0] + 1))
    lines = source.splitlines()
    return [lines[number - 1] for number in sorted(there - docstrings)]


def is_counted(path: str) -> bool:
    """Whether a file of the repository is a module of the package that was written by hand."""
    return path.startswith(PACKAGE) and path.endswith(".py") and not path.endswith("_pb2.py")


def by_room(root: Path = ROOT) -> Counter[str]:
    """Room -> code lines."""
    found: Counter[str] = Counter()
    for file in (root / PACKAGE).rglob("*.py"):
        path = file.relative_to(root).as_posix()
        if is_counted(path):
            found[room_of(path.removeprefix(PACKAGE))] += len(code_lines(file.read_text(encoding="utf-8")))
    return found


def changes(root: Path = ROOT) -> Iterator[tuple[str, int, int]]:
    """(room, code lines added, code lines removed) of each file that the next commit changes."""
    listed = _git(root, "diff", "--cached", "--name-status", "--no-renames", "-z", "--", PACKAGE).split("\0")
    for status, path in zip(listed[::2], listed[1::2], strict=False):
        if is_counted(path):
            before = [] if status == "A" else code_lines(_git(root, "show", f"HEAD:{path}"))
            after = [] if status == "D" else code_lines(_git(root, "show", f":{path}"))
            marks = Counter(line[0] for line in difflib.ndiff(before, after))
            yield room_of(path.removeprefix(PACKAGE)), marks["+"], marks["-"]


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status, 0."""
    if "--commit" not in arguments:
        for room, lines in by_room().most_common():
            print(f"{lines:7,} {room}")
        return 0
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    for room, more, fewer in changes():
        added[room] += more
        removed[room] += fewer
    if added or removed:
        print("code", ", ".join(f"+{added[room]} -{removed[room]} {room}" for room in sorted(added | removed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
