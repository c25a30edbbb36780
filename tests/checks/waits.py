# SPDX-License-Identifier: Apache-2.0
"""Finds waits in the tests that a busy machine would make fail. Prints ``path:line: message`` for each.

* A timeout in plain seconds: it is ``deadline(seconds)``, or the loop is ``wait_until``.
* A wait for a moment, ``time.monotonic() + seconds``, and a sleep of a second or more.
* An assertion that something took at most some plain seconds, outside the benchmarks and tests
  with the marker ``alone``.

A line that ends with ``# wait: REASON`` is an exception.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NOT_READ = ("tests/benchmarks/", "tests/waiting.py", "tests/checks/waits.py")
_EXCUSE = "# wait: "
_BLOCKING = frozenset({"wait", "join", "result", "communicate"})
_CLOCKS = frozenset({"monotonic", "perf_counter"})


def main() -> int:
    """:returns: the exit status: 1 if there is a violation."""
    found = [violation for path in sorted((ROOT / "tests").rglob("*.py")) for violation in check_file(path)]
    for violation in found:
        print(violation)
    return 1 if found else 0


def check_file(path: Path) -> Iterator[str]:
    """The violations in a file."""
    name = path.relative_to(ROOT).as_posix()
    if not name.startswith(_NOT_READ):
        yield from check(name, path.read_text(encoding="utf-8"))


def check(name: str, source: str) -> Iterator[str]:
    """The violations in Python source."""
    if not any(word in source for word in ("timeout", "sleep", *_CLOCKS, *(f".{verb}(" for verb in _BLOCKING))):
        return
    lines = source.splitlines()
    for node, is_alone in _walk(ast.parse(source), False):
        message = _message(node, is_alone)
        if message and _EXCUSE not in lines[node.end_lineno - 1] and _EXCUSE not in lines[node.lineno - 1]:
            yield f"{name}:{node.lineno}: {message}"


def _walk(node: ast.AST, is_alone: bool) -> Iterator[tuple[ast.expr | ast.Assert, bool]]:
    body = getattr(node, "body", None)
    if isinstance(node, ast.Module):
        is_alone = any(isinstance(line, ast.Assign) and _says_alone(line) for line in node.body)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body:
        is_alone = is_alone or any(_says_alone(decorator) for decorator in node.decorator_list)
    if isinstance(node, ast.expr | ast.Assert):
        yield node, is_alone
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, is_alone)


def _says_alone(node: ast.AST) -> bool:
    return ast.unparse(node).find("pytest.mark.alone") >= 0


def _message(node: ast.expr | ast.Assert, is_alone: bool) -> str | None:
    if isinstance(node, ast.Assert):
        measures = any(isinstance(part, ast.Compare) and _is_bounded(part) for part in ast.walk(node.test))
        return (
            "an assertion on a duration; wait_until, deadline(seconds), or the marker alone"
            if measures and not is_alone
            else None
        )
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and _is_clock(node.left)
        and not _is_scaled(node.right)
    ):
        return "a deadline by hand; wait_until or Deadline"
    if not isinstance(node, ast.Call):
        return None
    verb = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    plain = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
    if verb in _BLOCKING:
        plain += node.args[:1]
    if any(_whole_seconds(value) for value in plain):
        return "a timeout in plain seconds; deadline(seconds)"
    if ast.unparse(node.func) == "time.sleep" and node.args and _whole_seconds(node.args[0]):
        return "a sleep; wait for a condition"
    return None


def _is_bounded(node: ast.Compare) -> bool:
    """Whether a duration must be shorter than plain seconds. A busy machine makes none shorter."""
    sides = [node.left, *node.comparators]
    for short, relation, long in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(relation, ast.Gt | ast.GtE):
            short, long = long, short
        if _is_duration(short) and not _is_scaled(long):
            return True
    return False


def _is_duration(node: ast.AST) -> bool:
    return _is_clock(node) or (isinstance(node, ast.BinOp) and (_is_duration(node.left) or _is_duration(node.right)))


def _is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLOCKS


def _is_scaled(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "deadline"


def _whole_seconds(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value >= 1


if __name__ == "__main__":
    sys.exit(main())
