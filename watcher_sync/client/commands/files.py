# SPDX-License-Identifier: Apache-2.0
"""Reads the file that an option names: a secret, or an object as JSON or YAML. ``-`` is stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from watcher_sync.client.commands.arguments import WrongUsage

STDIN: Final = "-"


def secret_of_file(name: str) -> str:
    """The secret in the file of ``--secret-file``. It is never on the command line, which every user can read.

    :raises WrongUsage: when the file cannot be read, or has no secret.
    """
    try:
        text = sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as exc:
        raise WrongUsage(f"--secret-file {name}: {getattr(exc, 'strerror', None) or 'is no text'}") from None
    secret = text.strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise WrongUsage(f"--secret-file {name}: has no secret")
    return secret


def object_of_file(name: str) -> dict[str, Any]:
    """The object in the file of ``--file``.

    :raises WrongUsage: when there is no such object; the message names the file.
    """
    shown = "stdin" if name == STDIN else name
    try:
        text = (sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUsage(f"--file: {shown} is not UTF-8") from None
    except (OSError, ValueError) as exc:
        raise WrongUsage(f"--file: {shown} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None
    try:
        document = _loaded(text)
        msgspec.json.encode(document)
    except (ValueError, TypeError, RecursionError) as exc:
        raise WrongUsage(f"--file: {shown}: {exc}") from None
    if not isinstance(document, dict):
        raise WrongUsage(f"--file: {shown} contains no object")
    return document


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads YAML, and refuses a key that occurs twice: PyYAML would silently drop the first value."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Makes a mapping.

        :raises ValueError: when a key occurs twice.
        """
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        _require_unique([value for _, value in keys] if len(set(keys)) < len(keys) else [])
        return super().construct_mapping(node, deep=deep)


def _loaded(text: str) -> Any:
    """Decodes JSON or YAML.

    :raises ValueError: when the text is neither.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)  # YAML refuses the tabs of JSON
    except json.JSONDecodeError:
        pass
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{exc.problem or exc.context}") from None
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    _require_unique([name for name, _ in pairs])
    return dict(pairs)


def _require_unique(names: Sequence[str]) -> None:
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} occurs twice")
