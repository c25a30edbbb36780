# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage plugin scaffold``: writes the beginning of a plugin. It needs no configuration and no database.

The files are those of the folder ``plugin_template``, with the names in place of ``$name``, ``$module`` and ``$cls``.
After an error nothing of them remains.
"""

from __future__ import annotations

import contextlib
import keyword
import re
import shutil
import string
import sys
from importlib import util
from pathlib import Path
from typing import Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.model.loading import load_kinds

_TEMPLATE: Final = Path(__file__).parent / "plugin_template"
_NAME: Final = re.compile(r"[a-z](?:[a-z0-9._-]{0,38}[a-z0-9])?", re.IGNORECASE | re.ASCII)
"""A distribution name that is an identifier, too, once its dots and hyphens are underscores."""

_IMPORTED: Final = frozenset(["Annotated", "Any", "Count", "Doc", "Entity", "In", "Path", "Played", "Text"])
"""What the templates import beside the new class."""


class ScaffoldFailed(WatcherSyncError):
    """The folder of a plugin cannot be written."""


def plugin(conf: cfg.ConfigOpts) -> None:
    """Write the package and print where it is."""
    name = conf.command.name_of_plugin
    folder = Path(conf.command.directory or name)
    scaffold(name, folder)
    print(f"Wrote {folder}. Begin with: cd {folder} && pip install -e '.[test]' && pytest")


def scaffold(name: str, folder: Path) -> None:
    """Write a package with a handler, an entity kind, an extension and their tests.

    :param name: of the distribution: a letter, then at most 39 letters, digits, dots, hyphens and underscores.
    :param folder: does not exist, or is empty.
    :raises ConfigError: the name cannot be that of a plugin, or the folder has files.
    :raises ScaffoldFailed: the folder cannot be written.
    """
    module = _module_of(name)
    names = {
        "name": name,
        "module": module,
        "cls": _class_of(module),
        "underline": "=" * len(name),
    }
    try:
        is_there = folder.exists()
        if is_there and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder}: exists and is not an empty folder")
        with contextlib.ExitStack() as undo:
            if not is_there:
                folder.mkdir()
                undo.callback(folder.rmdir)
            undo.callback(_clear, folder)
            _write(folder, names)
            undo.pop_all()
    except OSError as exc:
        raise ScaffoldFailed(f"{folder}: {exc.strerror or exc}") from exc


def _module_of(name: str) -> str:
    """The name of the package, of the kind and of the entry points.

    :raises ConfigError: there is none for this name.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name of a distribution: it begins with a letter, ends with a letter or a digit, has "
            "letters, digits, dots, hyphens and underscores between, and at most 40 characters"
        )
    module = re.sub(r"[-_.]+", "_", name).lower()
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or util.find_spec(module) is not None:
        raise ConfigError(f"{name!r} is the name of an installed module; choose another one")
    cls = _class_of(module)
    if keyword.iskeyword(cls) or cls in _IMPORTED:
        raise ConfigError(f"{name!r} is no name of a class ({cls} is taken); choose another one")
    if module in load_kinds():
        raise ConfigError(f"{name!r} is the name of an installed kind; choose another one")
    return module


def _class_of(module: str) -> str:
    return "".join(word.capitalize() for word in module.split("_"))


def _write(folder: Path, names: dict[str, str]) -> None:
    """:raises OSError: a file cannot be written."""
    for template in sorted(_TEMPLATE.rglob("*.tmpl")):
        relative = str(template.relative_to(_TEMPLATE).with_suffix("")).replace("module", names["module"])
        file = folder / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(string.Template(template.read_text()).substitute(names))


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
