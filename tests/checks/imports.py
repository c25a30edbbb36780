# SPDX-License-Identifier: Apache-2.0
"""Imports every module of a package, in one interpreter, and names those that fail with their error.

The hook at each commit runs it, so the package can be imported at each commit. For the commits of a branch::

    git rebase --exec "python -m tests.checks.imports" BASE

It names folders with Python files that belong to no package, such as migrations: nothing is skipped silently.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path


def walk(name: str) -> Iterator[tuple[str, str]]:
    """Import a module and all below it; yield the name of each with its error, empty if there is none."""
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - whatever a module raises is the finding
        yield name, f"{type(exc).__name__}: {exc}"
        return
    yield name, ""
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        yield from walk(found.name)


def outside(folder: Path) -> list[Path]:
    """Return the folders with Python files below a package that are no packages."""
    folders = {file.parent for file in folder.rglob("*.py")}
    return sorted(one for one in folders if not (one / "__init__.py").exists())


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0, or 1 if a module cannot be imported."""
    wrong = 0
    for package in arguments or ("watcher_sync",):
        errors = dict(walk(package))
        for name, error in errors.items():
            if error:
                print(f"{name}: {error}")
                wrong = 1
        for folder in getattr(sys.modules.get(package), "__path__", ()):
            for one in outside(Path(folder)):
                print(f"{one}: no package, so its modules are not imported")
        print(f"{package}: {len(errors)} modules")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
