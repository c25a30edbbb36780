# SPDX-License-Identifier: Apache-2.0
"""The kinds of this package alone, whatever plugins are installed beside it."""

from __future__ import annotations

from watcher_sync.model.kinds import Kinds
from watcher_sync.model.loading import load_kinds

BUILTIN = tuple(each.cls for each in load_kinds().values() if each.cls.__module__.startswith("watcher_sync."))


def builtin_kinds() -> Kinds:
    """The kinds that this package declares."""
    return Kinds(*BUILTIN)
