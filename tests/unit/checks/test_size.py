# SPDX-License-Identifier: Apache-2.0
"""What counts as a code line, which room a module is in, and what a commit adds and removes."""

from __future__ import annotations

import subprocess

import pytest

from tests.checks.size import changes, code_lines, room_of

SOURCE = '''# A comment.
"""A docstring
of two lines."""

import os  # counted


class Thing:
    """Another one."""

    text = """a value,
which is no docstring"""
    size = 3
    """The docstring of an attribute."""
'''


def test_blank_lines_comments_and_docstrings_are_no_code():
    found = [line.strip() for line in code_lines(SOURCE)]
    assert found == [
        "import os  # counted",
        "class Thing:",
        'text = """a value,',
        'which is no docstring"""',
        "size = 3",
    ]


@pytest.mark.parametrize(
    ("path", "room"),
    [("extensions/log/extension.py", "log"), ("client/shell.py", "client"), ("wire/json.py", "core"),
     ("extensions/__init__.py", "core"), ("demo/command.py", "testing")],
)  # fmt: skip
def test_each_module_is_in_one_room(path, room):
    assert room_of(path) == room


def test_a_commit_shows_what_it_adds_and_removes_in_each_room(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    package = tmp_path / "watcher_sync"
    (package / "client").mkdir(parents=True)
    git("init", "-q")
    (package / "events.py").write_text("a = 1\nb = 2\n")
    git("add", ".")
    git("commit", "-qm", "x")
    (package / "events.py").write_text("# a comment\na = 1\nb = 3\nc = 4\n")
    (package / "client" / "shell.py").write_text("d = 5\n")
    git("add", ".")
    assert sorted(changes(tmp_path)) == [("client", 1, 0), ("core", 2, 1)]
