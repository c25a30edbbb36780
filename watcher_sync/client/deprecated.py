# SPDX-License-Identifier: Apache-2.0
"""Old names of the client's classes. They work for one release, with a ``DeprecationWarning``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the ``__getattr__`` of a module that has renamed some of its names (PEP 562).

    :param module: the ``__name__`` of the module.
    :param names: old name -> new name. Both are names of the module.
    :returns: a function that warns and returns the object of the new name, and raises :class:`AttributeError` for
        every other name.
    """

    def get(name: str) -> Any:
        new = names.get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is deprecated and will be removed in the next release; use {new}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new)

    return get
