# SPDX-License-Identifier: Apache-2.0
"""Applies the rules for prose in CONTRIBUTING.rst to the repository. Prints ``path:line: message`` for each violation.

* No banned word in comments, docstrings, messages, documents, release notes and configuration files.
* A module's docstring has at most 120 words, and a sentence of a docstring at most 25.
* The name of a test has at most 90 characters, and no banned word.
* An exception names its reason, and excuses something.

Generated files are not read. ``*.sample`` repeats help texts, which are checked where they are written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.checks.banned_words import banned_in, may_violate
from tests.checks.document_text import read_document
from tests.checks.python_text import DOCSTRINGS, Excuse, Text, docstrings, read_python
from tests.checks.sentences import mask_code, sentences, without_code

ROOT = Path(__file__).resolve().parents[2]
MODULE_WORDS = 120
SENTENCE_WORDS = 25
NAME_CHARACTERS = 90

_TEST = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
_FOLDERS = (".ci", "contrib", "doc", "etc", "releasenotes", "tests", "watcher_sync")
_SUFFIXES = frozenset({".py", ".rst", ".yaml", ".conf", ".json", ".toml", ".cfg", ".ini", ".txt"})
_GENERATED = frozenset({"build", "_generated", "__pycache__", "node_modules", "static"})


class Violation(NamedTuple):
    """A violation of one rule: ``word``, ``module``, ``sentence``, ``name`` or ``exception``."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def main(arguments: Sequence[str]) -> int:
    """Checks the given files, or all; returns the exit status: 0, or 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks", description="Check the prose of the repository.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files to check; all files by default")
    parser.add_argument("--statistics", action="store_true", help="print counts by rule and folder instead")
    options = parser.parse_args(arguments)
    if options.paths:
        violations = [violation for path in options.paths for violation in check_file(path)]
    else:
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(check_file, files(ROOT), chunksize=32)
            violations = [violation for file_violations in found for violation in file_violations]
    if options.statistics:
        counts = Counter((violation.rule, violation.path.split("/")[0]) for violation in violations)
        for (rule, folder), count in sorted(counts.items()):
            print(f"{rule:10} {folder:20} {count:6}")
    else:
        for violation in violations:
            print(violation)
    if violations:
        print(f"{len(violations)} violations; the rules are in CONTRIBUTING.rst", file=sys.stderr)
    return 1 if violations else 0


def files(root: Path) -> Iterator[Path]:
    """The files that are checked, sorted by path."""
    for path in sorted(root.iterdir()):
        if path.is_file() and (path.suffix in _SUFFIXES or path.name == "Makefile"):
            yield path
    for name in _FOLDERS:
        for folder, folders, names in os.walk(root / name):
            folders[:] = sorted(set(folders) - _GENERATED)
            for file in sorted(names):
                path = Path(folder, file)
                if (path.suffix in _SUFFIXES or name == ".ci") and not path.stem.endswith("_pb2"):
                    yield path


def check_file(path: Path) -> list[Violation]:
    """The violations in one file, sorted by line. Paths are reported relative to the repository."""
    source = path.read_text(encoding="utf-8")
    name = path.resolve().relative_to(ROOT).as_posix()
    return check_python(name, source) if path.suffix == ".py" else check_document(name, source)


def check_python(path: str, source: str) -> list[Violation]:
    """The violations in Python source."""
    names = _names(path, source)
    if not may_violate(source):
        return sorted([*_lengths(path, docstrings(source)), *names], key=_by_line)
    texts, excuses = read_python(source)
    return _excused(path, [*_words(path, texts), *_lengths(path, texts), *names], excuses)


def check_document(path: str, source: str) -> list[Violation]:
    """The violations in a file that is not Python."""
    texts, excuses = read_document(source, path)
    return _excused(path, list(_words(path, texts)), excuses)


def _words(path: str, texts: Sequence[Text]) -> Iterator[Violation]:
    for text in texts:
        lines = without_code(text.lines) if text.role in DOCSTRINGS else text.lines
        value = mask_code("\n".join(line for _, line in lines))
        for offset, found, instead in banned_in(value):
            yield Violation(path, lines[value.count("\n", 0, offset)][0], "word", f"'{found}': write {instead}")


def _lengths(path: str, texts: Sequence[Text]) -> Iterator[Violation]:
    for text in texts:
        if text.role not in DOCSTRINGS:
            continue
        begin = text.lines[0][0]
        found = list(sentences(text.lines))
        if text.role == "module":
            words = sum(sentence.words for sentence in found)
            if words > MODULE_WORDS:
                yield Violation(path, begin, "module", f"module docstring of {words} words, at most {MODULE_WORDS}")
        for sentence in found:
            if sentence.words > SENTENCE_WORDS:
                start = " ".join(sentence.text.split()[:6])
                message = f"sentence of {sentence.words} words, at most {SENTENCE_WORDS}: {start} ..."
                yield Violation(path, sentence.line, "sentence", message)


def _names(path: str, source: str) -> Iterator[Violation]:
    """The violations in the names of tests, which are sentences."""
    for test in _TEST.finditer(source):
        line, length = source.count("\n", 0, test.start(1)) + 1, len(f"test_{test[1]}")
        if length > NAME_CHARACTERS:
            yield Violation(path, line, "name", f"name of {length} characters, at most {NAME_CHARACTERS}")
        for _, found, instead in banned_in(test[1].replace("_", " ")):
            yield Violation(path, line, "name", f"'{found}' in the name of a test: write {instead}")


def _excused(path: str, violations: Sequence[Violation], excuses: Sequence[Excuse]) -> list[Violation]:
    """The violations without those that are excused, and with the excuses that are themselves wrong."""
    excused: dict[int, Excuse] = {line: excuse for excuse in excuses if excuse.reason for line in excuse.covers}
    left = [violation for violation in violations if violation.line not in excused]
    used = {excused[violation.line] for violation in violations if violation.line in excused}
    for excuse in excuses:
        if not excuse.reason:
            left.append(Violation(path, excuse.line, "exception", "an exception without its reason: 'prose: REASON'"))
        elif excuse not in used:
            left.append(Violation(path, excuse.line, "exception", "an exception that excuses nothing; remove it"))
    return sorted(left, key=_by_line)


def _by_line(violation: Violation) -> int:
    return violation.line
