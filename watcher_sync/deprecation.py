# SPDX-License-Identifier: Apache-2.0
"""Old names of the plugin interface, which work for one release and warn.

A warning is a :class:`DeprecationWarning` that names the old and the new name, at the plugin's own line. Pure
functions, for any thread.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def warn_renamed(old: str, new: str, *, stacklevel: int = 2) -> None:
    """Warn that a name is deprecated.

    :param stacklevel: 1 for the caller of this function, 2 for the caller's caller, and so on.
    """
    warnings.warn(f"{old} is deprecated, use {new}", DeprecationWarning, stacklevel=stacklevel + 1)


def renamed_names(module: str, new_names: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that finds names that have moved or have a new name.

    :param module: name of the module.
    :param new_names: old name -> (module, new name).
    """

    def find(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        where, new = new_names[name]
        warn_renamed(f"{module}.{name}", f"{where}.{new}")
        return getattr(sys.modules[where], new)

    return find


def renamed_members(cls: type, new_names: Mapping[str, str], *, stacklevel: int = 2) -> None:
    """Give a class that defines members under their old names the new ones; for ``__init_subclass__``.

    :param new_names: old name -> new name.
    :param stacklevel: as for :func:`warn_renamed`.
    """
    for old, new in new_names.items():
        if old in vars(cls) and new not in vars(cls):
            warn_renamed(f"{cls.__module__}.{cls.__qualname__}.{old}", new, stacklevel=stacklevel + 1)
            setattr(cls, new, vars(cls)[old])
