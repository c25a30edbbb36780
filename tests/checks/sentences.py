# SPDX-License-Identifier: Apache-2.0
"""Splits documentation text into sentences and counts their words.

Literal blocks, doctests, tables, rows of a package map and directives' options are left out, because they have no
sentences. Each list item and each field (``:param name:``) is split on its own. A code span in double backticks and a
role count as one word. Colons and semicolons do not end a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Line = tuple[int, str]
"""The number of a line in its file, and its text."""

CODE_DIRECTIVES = ("code", "code-block", "sourcecode", "math", "parsed-literal", "raw", "highlight", "literalinclude")

_CODE = re.compile(r"``.+?``|:[a-zA-Z:+-]+:`[^`]+`", re.DOTALL)
_DIRECTIVE = re.compile(r"\.\. (?P<name>[a-z:-]+)::")
_EXPLICIT_MARKUP = re.compile(r"\.\.(?: |$)")
_OPTION = re.compile(r":[a-z-]+:(?: |$)")
_FIELD = re.compile(r":(?:param|arg|keyword|raises?|returns?|yields?|type|rtype|var|ivar|cvar)\b[^:]*: ?")
_BULLET = re.compile(r"(?:[*+-]|#\.|\d+[.)]|\([a-z0-9]\)) +")
_BORDER = re.compile(r"[=-]+(?: +[=-]+)+$")
_GRID = re.compile(r"[+|].*[+|]$")
_UNDERLINE = re.compile(r"([=\-~^\"'*+#])\1{2,}$")
_MAP_ROW = re.compile(r"``[^`]+`` {2,}\S")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^a-z\s])")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|no)\.$", re.IGNORECASE)
_WORD = re.compile(r"\S*[^\W_]\S*")


class Sentence(NamedTuple):
    """A sentence, the line on which it begins, and the number of its words."""

    line: int
    text: str
    words: int


def mask_code(text: str) -> str:
    """Replaces code spans and roles by a filler of the same length, so that they never match a word."""
    return _CODE.sub(lambda match: re.sub(r"\S| ", "x", match.group()), text)


def without_code(lines: Sequence[Line]) -> list[Line]:
    """The lines without literal blocks, doctests, comments of reStructuredText and the options of directives.

    A line that is left out becomes an empty one, so that paragraphs stay apart.
    """
    kept: list[Line] = []
    skip_beyond: int | None = None
    in_directive = False
    for number, line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if skip_beyond is not None and text and indent <= skip_beyond:
            skip_beyond = None
        if skip_beyond is not None or not text:
            kept.append((number, ""))
            in_directive = in_directive and bool(text)
            continue
        if in_directive and _OPTION.match(text):
            kept.append((number, ""))
            continue
        in_directive = False
        directive = _DIRECTIVE.match(text)
        if directive:
            in_directive = True
            if directive["name"] in CODE_DIRECTIVES or directive["name"].startswith("auto"):
                skip_beyond = indent
                text = ""
            else:
                text = text[directive.end() :].strip()
            kept.append((number, " " * indent + text))
        elif _EXPLICIT_MARKUP.match(text):
            skip_beyond = indent
            kept.append((number, ""))
        elif text.startswith(">>> "):
            kept.append((number, ""))
        else:
            if text.endswith("::"):
                skip_beyond = indent
            kept.append((number, line))
    return kept


def paragraphs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Splits text without code into paragraphs, list items and fields; leaves out tables and titles' underlines."""
    current: list[Line] = []
    in_table = False
    in_row = False
    indent = 0
    for number, line in lines:
        text = line.strip()
        here = len(line) - len(line.lstrip())
        if _BORDER.match(text):
            if current:
                yield current
            current, in_table = [], True
            continue
        if not text:
            if current:
                yield current
            current, in_table, in_row = [], False, False
            continue
        if _MAP_ROW.match(text):
            if current:
                yield current
            current, in_row, indent = [], True, here
            continue
        if in_table or (in_row and here > indent) or _GRID.match(text) or _UNDERLINE.match(text):
            continue
        in_row = False
        marker = _BULLET.match(text) or _FIELD.match(text)
        if marker or here != indent:
            if current and (marker or here < indent or not _continues(current, here)):
                yield current
                current = []
            indent = here
            text = text[marker.end() :] if marker else text
        if text:
            current.append((number, text))
    if current:
        yield current


def _continues(current: Sequence[Line], here: int) -> bool:
    """Whether a deeper line belongs to the paragraph: it does when the sentence before it has not ended."""
    return not current[-1][1].rstrip().endswith((".", ":", "!", "?"))


def sentences(lines: Sequence[Line]) -> Iterator[Sentence]:
    """Yields the sentences of a docstring or a document."""
    for paragraph in paragraphs(without_code(lines)):
        original = "\n".join(line for _, line in paragraph)
        text = mask_code(original)
        begin = 0
        for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
            part = text[begin:end].strip()
            if not part or (_ABBREVIATION.search(part) and end < len(text)):
                continue
            line = paragraph[text.count("\n", 0, begin)][0]
            yield Sentence(line, " ".join(original[begin:end].split()), count_words(part))
            begin = end


def count_words(text: str) -> int:
    """Counts words: what is between white space and has a letter or a digit."""
    return len(_WORD.findall(text))
