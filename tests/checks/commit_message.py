# SPDX-License-Identifier: Apache-2.0
"""Checks the form of commit messages; CONTRIBUTING.rst describes it.

As a commit-msg hook it takes the file with the message::

    python -m tests.checks.commit_message .git/COMMIT_EDITMSG

With ``--range A..B`` it checks the commits of a range instead.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.checks.banned_words import banned_in
from tests.checks.sentences import mask_code

SUBJECT_LENGTH = 72

_AREA = r"[a-z0-9][a-z0-9_.-]*(?:/[a-z0-9_.-]+)*"
_SUBJECT = re.compile(rf"(?P<area>{_AREA}): (?P<summary>\S.*)")
_MERGE = re.compile(r"Merge\b(?P<what>.*)")
_MADE_BY_GIT = re.compile(r"(?:(?:fixup|squash|amend)! |Revert \"|Reapply \")\S")
_SCISSORS = re.compile(r"# -{8,} >8 -{8,}")
_NAME = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"")
_NOT_IMPERATIVE = re.compile(r"[A-Z][a-z]+(?:ed|ing|s)")
_IMPERATIVE = re.compile(
    r"[A-Z][a-z]*(?:eed|ss)|Embed|Shed|Bring|Ping|Ring|String|Swing|Bias|Focus|Canvas", re.IGNORECASE
)


def check(message: str) -> list[str]:
    """What is wrong with a commit message; empty if nothing is. Comments are expected to be removed."""
    lines = message.rstrip().splitlines()
    if not lines or not lines[0].strip():
        return ["the message is empty"]
    subject = lines[0]
    if _MADE_BY_GIT.match(subject):
        return []
    found = list(_check_subject(subject))
    if len(lines) > 1 and lines[1].strip():
        found.append("the second line is not blank")
    # Names in backticks or quotation marks are no prose.
    text = _NAME.sub("x", mask_code("\n".join(lines)))
    found.extend(f"'{word}': write {instead}" for _, word, instead in banned_in(text))
    return found


def _check_subject(subject: str) -> Iterator[str]:
    if len(subject) > SUBJECT_LENGTH:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT_LENGTH}"
    merge = _MERGE.match(subject)
    if merge:
        if not merge["what"].strip(" .:"):
            yield "a merge says what it merges: 'Merge ...'"
        return
    match = _SUBJECT.fullmatch(subject)
    if not match:
        yield "the subject is not 'area: Imperative summary' with the area in lower case, such as 'dcm'"
        return
    summary = match["summary"]
    first = summary.split()[0]
    if not summary[0].isupper():
        yield "the summary does not begin with a capital"
    if summary.endswith("."):
        yield "the summary ends with a full stop"
    if _NOT_IMPERATIVE.fullmatch(first) and not _IMPERATIVE.fullmatch(first):
        yield f"the summary is not imperative: '{first}'"


def without_comments(text: str) -> str:
    """The message as git will record it: without comment lines and without what follows the scissors line."""
    lines = []
    for line in text.splitlines():
        if _SCISSORS.match(line):
            break
        if not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines).strip("\n")


def messages(commit_range: str) -> dict[str, str]:
    """The messages of the commits in a range, oldest first, by abbreviated commit id.

    :raises subprocess.CalledProcessError: if git does not know the range.
    """
    command = ["git", "log", "--reverse", "--format=%h%x1f%B%x1e", commit_range, "--"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    records = (record.strip("\n").partition("\x1f") for record in output.split("\x1e") if record.strip())
    return {commit: message for commit, _, message in records}


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0, 1 if a message is wrong, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.commit_message", description="Check commit messages.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", type=Path, metavar="FILE", help="file with one commit message")
    what.add_argument("--range", metavar="A..B", help="check the messages of these commits")
    options = parser.parse_args(arguments)
    if options.file is not None:
        checked = {str(options.file): without_comments(options.file.read_text(encoding="utf-8"))}
    else:
        try:
            checked = messages(options.range)
        except subprocess.CalledProcessError:
            return 2
    wrong = 0
    for name, message in checked.items():
        subject = message.partition("\n")[0]
        for problem in check(message):
            print(f"{name}: {problem}: {subject!r}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
