# SPDX-License-Identifier: Apache-2.0
"""The fields of a VNF instance as people read them: a line for each entry. Machine formats get the values."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cliff import columns

from watcher_sync.client.commands.registration import aspect_text, vdu_text
from watcher_sync.client.formatting import delta_text, plain

_MAX_DIFFERENCE_LENGTH = 120
"""Characters that a difference with its values may have; a longer one is shown without values."""


class Lines(columns.FormattableColumn[Any]):
    """A list or an object: machine formats get the value, people get a line for each entry."""

    def __init__(self, value: Any, lines: Callable[[Any], Iterable[str]]) -> None:
        """:param lines: formats the value as lines for people."""
        super().__init__(value)
        self._lines = lines

    def human_readable(self) -> str:
        """Returns the lines."""
        return "\n".join(plain(line) for line in self._lines(self._value))


def _numbers(value: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name}={'-' if number is None else number}" for name, number in value.items())


def _results(value: Mapping[str, Any]) -> Iterable[str]:
    for name, found in value.items():
        more = {key: seen for key, seen in found.items() if key not in ("result", "detail")}
        parts = [found["result"], found.get("detail"), more and json.dumps(more, ensure_ascii=False)]
        yield f"{name}: {', '.join(part for part in parts if part)}"


def _resources(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for vnfc in value:
        pod = (vnfc.get("computeResource") or {}).get("resourceId") or "-"
        yield f"{vnfc['vduId']}: {pod} ({vnfc['id']})"


def _differences(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for found in value:
        line = delta_text({found["field"]: (found["model_value"], found["live_value"])})
        yield line if len(line) <= _MAX_DIFFERENCE_LENGTH else f"{found['field']} differs"


def _pods(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    return (f"{pod['vdu']}: {pod['old'] or '-'} -> {pod['new'] or '-'} ({pod['vnfc_id']})" for pod in value)


_LINES: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "vdus": lambda value: (vdu_text(name, vdu) for name, vdu in value.items()),
    "aspects": lambda value: (aspect_text(name, aspect) for name, aspect in value.items()),
    "scale_level": _numbers,
    "nearest_level": _numbers,
    "observed": _numbers,
    "vdu_results": _results,
    "vnfc_resource_info": _resources,
    "differences": _differences,
    "pods": _pods,
}

CELLS: Mapping[str, Callable[[Any], Lines]] = {
    name: functools.partial(Lines, lines=lines) for name, lines in _LINES.items()
}
"""Field -> what makes its cell."""
