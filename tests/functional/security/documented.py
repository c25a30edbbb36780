# SPDX-License-Identifier: Apache-2.0
"""Takes commands and configurations out of the documentation, so that the tests run what the reader copies."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from pathlib import Path

DOCUMENTATION = Path(__file__).parents[3] / "doc" / "source"


def configuration(page: str, section: str) -> str:
    """The first code block of a page that has a section of an INI file."""
    text = (DOCUMENTATION / page).read_text()
    blocks = (found[1] for found in re.finditer(r"\.\. code-block:: ini\n\n(( +)\S.*\n(?:\2.*\n|\n)*)", text))
    return next(textwrap.dedent(block) for block in blocks if f"[{section}]" in block)


def block(page: str, first: str) -> str:
    """The code of a page from a line that contains a text to the next line with a brace alone."""
    text = (DOCUMENTATION / page).read_text()
    return text[text.index(first) :].partition("\n    }\n")[0] + "\n}\n"


def commands(page: str, program: str) -> list[list[str]]:
    """The command lines of a page that begin with a program."""
    lines = (line.strip() for line in (DOCUMENTATION / page).read_text().splitlines())
    return [shlex.split(line) for line in lines if line.startswith(f"{program} ")]


def steps(page: str) -> list[tuple[str, list[list[str]]]]:
    """The numbered steps of a page: the text of each in one line, and the command lines of its literal block."""
    found = []
    for part in re.split(r"^#\. ", (DOCUMENTATION / page).read_text(), flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        lines = [first, *itertools.takewhile(lambda line: not line or line.startswith(" "), rest)]
        text, _, block = "\n".join(lines).partition("::\n")
        found.append((" ".join(text.split()), [shlex.split(line) for line in block.splitlines() if line.strip()]))
    return found
