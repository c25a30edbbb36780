# SPDX-License-Identifier: Apache-2.0
"""The form of commit messages is checked as CONTRIBUTING.rst describes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.checks.commit_message import check, main, without_comments


@pytest.mark.parametrize(
    "message",
    [
        "sources/nats: Back off exponentially on redelivery",
        "api: Pass the request id on\n\nOperators search the log for it.\n",
        "engine: Feed the cycle from one queue",
        "a: " + "B" * 69,
        "Merge branch 'rabbitmq'",
        "Merge the RabbitMQ driver",
        'Revert "api: Add a page"',
        "fixup! api: Add a page",
        "model: Rename `hear` to `set_last_seen`",  # prose: a name in backticks
    ],
)
def test_a_message_of_the_form_passes(message: str) -> None:
    assert check(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "empty"),
        ("Back off exponentially on redelivery", "area: Imperative"),
        ("Sources/NATS: Back off on redelivery", "area: Imperative"),
        ("api:Add a page", "area: Imperative"),
        ("engine, storage: Feed the cycle from one queue", "area: Imperative"),
        ("a: " + "B" * 70, "73 characters"),
        ("api: add a page", "capital"),
        ("api: Add a page.", "full stop"),
        ("api: Adds a page", "not imperative: 'Adds'"),
        ("api: Added a page", "not imperative: 'Added'"),
        ("api: Adding a page", "not imperative: 'Adding'"),
        ("api: Add a page\nIt shows sources.", "second line"),
        ("Merge", "what it merges"),
        ("api: Answer whoever asks", "'whoever'"),  # prose: a message that must fail
        ("api: Add a page\n\nIt was made\nanew.", "'anew'"),  # prose: a message that must fail
    ],
)
def test_a_message_of_another_form_is_refused_with_the_reason(message: str, problem: str) -> None:
    found = check(message)

    assert len(found) == 1
    assert problem in found[0]


def test_comments_and_the_diff_below_the_scissors_are_no_part_of_the_message() -> None:
    text = "api: Add a page\n# Please enter\n\n# ------------------------ >8 ------------------------\nx" * 2

    assert without_comments(text) == "api: Add a page"


def test_the_hook_takes_a_file_and_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("# a comment\napi: Add a page\n")
    assert main([str(message)]) == 0

    message.write_text("some page\n")
    assert main([str(message)]) == 1
    assert "area: Imperative summary" in capsys.readouterr().out


def test_each_commit_of_a_range_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=A Person", "-c", "user.email=person@example.org", "-c", "core.hooksPath=/dev/null"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    git("init", "--quiet")
    for message in ("before the range", "api: Add a page\n\nWhy.", "added it"):
        git("commit", "--quiet", "--allow-empty", "--message", message)
    monkeypatch.chdir(tmp_path)

    assert main(["--range", "HEAD~2..HEAD~1"]) == 0
    assert main(["--range", "HEAD~2..HEAD"]) == 1
    output = capsys.readouterr().out
    assert "added it" in output
    assert "before the range" not in output
    assert main(["--range", "unknown..HEAD"]) == 2
