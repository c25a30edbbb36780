# SPDX-License-Identifier: Apache-2.0
"""Finds the text of files that are not Python: reStructuredText, YAML, configuration files, the Makefile.

Code in reStructuredText is left out. There, a comment ``.. prose: REASON`` before a paragraph is an exception. In files
whose comments begin with ``#``, it is ``# prose: REASON``, on the line or alone on the line before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.checks.python_text import Excuse, Text
from tests.checks.sentences import Line, without_code

_RST_EXCUSE = re.compile(r"\s*\.\. prose\b:?\s*(?P<reason>.*)")
_HASH_EXCUSE = re.compile(r"#\s*prose\b:?\s*(?P<reason>.*)")


def read_document(source: str, path: str) -> tuple[list[Text], list[Excuse]]:
    """The texts and the exceptions of a file that is not Python."""
    lines = list(enumerate(source.splitlines(), start=1))
    # The notes of a release note are reStructuredText inside YAML.
    is_rst = path.endswith(".rst") or path.startswith("releasenotes/notes/")
    texts = [Text("document", tuple(block)) for block in _blocks(without_code(lines) if is_rst else lines)]
    excuses = _rst_excuses(lines) if is_rst else []
    return texts, excuses if path.endswith(".rst") else [*excuses, *_hash_excuses(lines)]


def _blocks(lines: Sequence[Line]) -> list[list[Line]]:
    """Runs of lines without an empty one between them."""
    blocks: list[list[Line]] = [[]]
    for number, line in lines:
        if line.strip():
            blocks[-1].append((number, line))
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _rst_excuses(lines: Sequence[Line]) -> list[Excuse]:
    excuses = []
    for index, (number, line) in enumerate(lines):
        match = _RST_EXCUSE.match(line)
        if match is None:
            continue
        covers = {number}
        begun = False
        for following, text in lines[index + 1 :]:
            if begun and not text.strip():
                break
            begun = begun or bool(text.strip())
            covers.add(following)
        excuses.append(Excuse(number, match["reason"].strip(), frozenset(covers)))
    return excuses


def _hash_excuses(lines: Sequence[Line]) -> list[Excuse]:
    excuses = []
    for number, line in lines:
        match = _HASH_EXCUSE.search(line)
        if match is not None:
            alone = not line[: match.start()].strip()
            excuses.append(
                Excuse(number, match["reason"].strip(), frozenset({number, number + 1} if alone else {number}))
            )
    return excuses
