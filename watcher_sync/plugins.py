# SPDX-License-Identifier: Apache-2.0
"""Loads the installed plugins of one namespace of entry points.

stevedore lists them, with its cache. Its own loading lets a ``SystemExit`` or an ``AssertionError`` of a module end
the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from stevedore import ExtensionManager

from watcher_sync.exceptions import interrupts


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin that was loaded."""

    name: str
    """Of its entry point."""
    module: str
    plugin: Any
    """What the entry point names."""


def load_plugins(namespace: str, failed: Callable[[str, BaseException], None]) -> list[LoadedPlugin]:
    """Load the plugins of a namespace, in the order of their installation.

    :param failed: called with the name of each plugin whose module raises something, and what it raises.
    """
    listing: ExtensionManager[Any] = ExtensionManager.make_test_instance([], namespace)  # loads nothing by itself
    found = []
    for entry_point in listing.list_entry_points():
        try:
            found.append(LoadedPlugin(entry_point.name, entry_point.module, entry_point.load()))
        except BaseException as exc:
            if interrupts(exc):
                raise
            failed(entry_point.name, exc)
    return found
