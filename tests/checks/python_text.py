# SPDX-License-Identifier: Apache-2.0
"""Finds the text in Python source: comments, docstrings, and the strings that people read.

These strings are text:

* a docstring, or another string that is a statement,
* a log message, an argument such as ``help``, and part of a ``raise`` statement,
* every other string of three words or more.

An exception is a comment ``# prose: REASON``: at the end of a comment, on the last line of a string, or on the line
before either.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.checks.sentences import Line

_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_TEXT_ARGUMENTS = frozenset(
    {"help", "description", "summary", "epilog", "title", "detail", "reason", "deprecated_reason"}
)
_EXCUSE = re.compile(r"#\s*prose\b:?\s*(?P<reason>.*)")
_QUOTE = re.compile(r"(?P<prefix>[a-zA-Z]*)(?P<quote>\"\"\"|'''|\"|')")
_ESCAPE = re.compile(r"\\(?:[ntrabfv0\\'\"]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")
_FIELD = re.compile(r"\{[^{}]*\}|%\(\w+\)")
_PROSE = re.compile(r"[A-Za-z]{2,}[,;:.]?\s+(?:\S+\s+)?[A-Za-z]+[,;:.]?\s+(?:\S+\s+)?[A-Za-z]{2,}")
_FSTRING = frozenset(
    getattr(tokenize, name) for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END") if hasattr(tokenize, name)
)


DOCSTRINGS = frozenset({"module", "class", "function"})
"""The roles of texts that are docstrings."""


class Text(NamedTuple):
    """A piece of text with the numbers of its lines. ``role`` is module, class, function, string or comment."""

    role: str
    lines: tuple[Line, ...]

    @property
    def value(self) -> str:
        """The lines as one string, joined by newlines."""
        return "\n".join(line for _, line in self.lines)


class Excuse(NamedTuple):
    """An exception from the rules: its line, its reason, which may be empty, and the lines that it covers."""

    line: int
    reason: str
    covers: frozenset[int]


def read_python(source: str) -> tuple[list[Text], list[Excuse]]:
    """The texts and the exceptions of a Python file.

    :raises SyntaxError: if the source is no Python.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    strings = [token for token in tokens if token.type == tokenize.STRING or token.type in _FSTRING]
    texts = [*_comments(tokens), *_strings(ast.parse(source), source.splitlines(), strings)]
    return texts, list(_excuses(tokens, strings))


def docstrings(source: str) -> list[Text]:
    """The docstrings alone. Needs a third of the time of :func:`read_python`.

    :raises SyntaxError: if the source is no Python.
    """
    source_lines = source.splitlines()
    found = []
    for role, node in _docstring_nodes(ast.parse(source)):
        lines = list(enumerate(source_lines[node.lineno - 1 : node.end_lineno], start=node.lineno))
        number, last = lines[-1]
        lines[-1] = number, last.encode()[: node.end_col_offset].decode()
        number, first = lines[0]
        lines[0] = number, " " * node.col_offset + first[node.col_offset :]
        found.append(Text(role, tuple(_unquoted(lines))))
    return found


def _docstring_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Docstrings with their roles. Visits statements only, because no docstring is inside an expression."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                stack.extend(inner)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            literal = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                yield {ast.Module: "module", ast.ClassDef: "class"}.get(type(node), "function"), literal


def _comments(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[Text]:
    """Comments, those on adjacent lines and in the same column as one text."""
    block: list[Line] = []
    column = -1
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        line, here = token.start
        if block and (here != column or line != block[-1][0] + 1):
            yield Text("comment", tuple(block))
            block = []
        block.append((line, token.string.lstrip("#!:")))
        column = here
    if block:
        yield Text("comment", tuple(block))


def _strings(tree: ast.Module, source_lines: Sequence[str], tokens: Sequence[tokenize.TokenInfo]) -> Iterator[Text]:
    roles = {id(node): role for role, node in _docstring_nodes(tree)}
    begins = [token.start for token in tokens]
    for node, is_message in _string_nodes(tree):
        start = _position(source_lines, node.lineno, node.col_offset)
        end = _position(source_lines, node.end_lineno or node.lineno, node.end_col_offset or 0)
        lines: list[Line] = []
        for token in tokens[bisect.bisect_left(begins, start) : bisect.bisect_left(begins, end)]:
            lines.extend(_token_lines(token))
        text = Text(roles.get(id(node), "string"), tuple(lines))
        if is_message or id(node) in roles or _PROSE.search(text.value):
            yield text


def _string_nodes(tree: ast.Module) -> Iterator[tuple[ast.Constant | ast.JoinedStr, bool]]:
    """Strings and f-strings, each with whether it is a message: logged, raised, an argument such as ``help``, or alone.

    The literal parts of an f-string belong to it. Strings inside its braces are strings of their own.
    """
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, is_message = stack.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node, is_message
            continue
        if isinstance(node, ast.JoinedStr):
            yield node, is_message
            stack.extend((value.value, is_message) for value in node.values if isinstance(value, ast.FormattedValue))
            continue
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            is_message = True
        elif isinstance(node, ast.keyword):
            is_message = is_message or node.arg in _TEXT_ARGUMENTS
        elif isinstance(node, ast.Call):
            is_message = is_message or (isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS)
        elif isinstance(node, ast.Dict | ast.Subscript):
            is_message = False
        # The arguments of a call inside a message are values.
        stack.extend(
            (inner, is_message and not (isinstance(node, ast.Call) and isinstance(inner, ast.Call)))
            for inner in ast.iter_child_nodes(node)
        )


def _position(source_lines: Sequence[str], line: int, byte_column: int) -> tuple[int, int]:
    """The place as tokenize counts it, in characters; the syntax tree counts bytes."""
    text = source_lines[line - 1]
    return line, byte_column if text.isascii() else len(text.encode()[:byte_column].decode())


def _token_lines(token: tokenize.TokenInfo) -> list[Line]:
    """The lines of one token without quotes, escapes and fields; the first is padded to its column."""
    first = " " * token.start[1] + token.string
    lines = list(enumerate(first.split("\n"), start=token.start[0]))
    if token.type == tokenize.STRING:
        lines = _unquoted(lines)
    return [(number, _blank(_ESCAPE, line)) for number, line in lines] if token.string else []


def _unquoted(lines: list[Line]) -> list[Line]:
    """The lines of a string literal without its quotes. An f-string's and a format's fields become blank."""
    number, first = lines[0]
    opening = _QUOTE.match(first, len(first) - len(first.lstrip()))
    assert opening is not None
    lines[0] = number, " " * opening.end() + first[opening.end() :]
    number, last = lines[-1]
    quote = opening["quote"]
    lines[-1] = number, last[: last.rindex(quote)] if quote in last else last
    if len(lines) == 1 or "f" in opening["prefix"].lower():
        lines = [(number, _FIELD.sub(lambda match: "x" * len(match.group()), line)) for number, line in lines]
    return lines


def _blank(pattern: re.Pattern[str], line: str) -> str:
    return pattern.sub(lambda match: " " * len(match.group()), line)


def _excuses(tokens: Sequence[tokenize.TokenInfo], strings: Sequence[tokenize.TokenInfo]) -> Iterator[Excuse]:
    for token in tokens:
        match = _EXCUSE.search(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        line = token.start[0]
        alone = not token.line[: token.start[1]].strip()
        covers = {line, line + 1} if alone and match.start() == 0 else {line}
        for string in strings:
            if covers & {string.start[0], string.end[0]}:
                covers.update(range(string.start[0], string.end[0] + 1))
        yield Excuse(line, match["reason"].strip(), frozenset(covers))
