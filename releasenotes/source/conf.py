# SPDX-License-Identifier: Apache-2.0
"""How the release notes are built; see the tox environment releasenotes."""

from typing import Any

from dulwich.diff_tree import CHANGE_ADD, CHANGE_MODIFY
from reno import scanner

project = "watcher_sync release notes"
author = "The watcher_sync authors"
copyright = author
release = version = ""
extensions = ["reno.sphinxext"]
html_theme = "furo"
html_title = project


class _Aggregator(scanner._ChangeAggregator):  # type: ignore[misc]
    """Lets a merge change a note that only one of its sides had; reno refuses to read such a history."""

    def aggregate_changes(self, walk_entry: Any, changes: list[Any]) -> Any:
        return super().aggregate_changes(walk_entry, [_as_a_modification(change) for change in changes])


def _as_a_modification(change: Any) -> Any:
    """What one commit did to one file; a merge did it in the eyes of each of its sides."""
    if isinstance(change, list) and {side.type for side in change} == {CHANGE_ADD, CHANGE_MODIFY}:
        return [side for side in change if side.type == CHANGE_MODIFY]
    return change


scanner._ChangeAggregator = _Aggregator
