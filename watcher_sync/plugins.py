# SPDX-License-Identifier: Apache-2.0
"""Loads the installed plugins of one namespace of entry points.

stevedore lists them, with its cache. Its own loading lets a ``SystemExit`` or an ``AssertionError`` of a module end
the process.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final, TypeVar

import msgspec
from oslo_config import cfg
from stevedore import ExtensionManager

from watcher_sync.exceptions import ConfigError, described, interrupts

_NO_NUMBER: Final = re.compile(r"(?:invalid literal for int\(\) with base 10|could not convert string to float): ")

T = TypeVar("T")

unloadable: Final[dict[str, str]] = {}
"""Namespace and name of each plugin whose module raised something in this process -> what it raised."""


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin that was loaded."""

    name: str
    """Of its entry point."""
    module: str
    plugin: Any
    """What the entry point names."""


def load_plugins(
    namespace: str, failed: Callable[[str, BaseException], None], names: Collection[str] | None = None
) -> list[LoadedPlugin]:
    """Load plugins of a namespace, in the order of their installation.

    :param failed: called with the name of each plugin whose module raises something, and what it raises.
    :param names: of the plugins; None: all.
    """
    found = []
    for entry_point in _entry_points(namespace):
        if names is not None and entry_point.name not in names:
            continue
        try:
            found.append(LoadedPlugin(entry_point.name, entry_point.module, entry_point.load()))
        except BaseException as exc:
            if interrupts(exc):
                raise
            unloadable[f"{namespace} {entry_point.name}"] = described(exc)
            failed(entry_point.name, exc)
    return found


def read_group(group: Mapping[str, Any], section: str) -> None:
    """Reads each option of a section.

    :raises ConfigError: a value is wrong; the message names the file, the section and the option.
    """
    for name in group:
        try:
            group[name]
        except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):  # the text may be a part of a password
            raise ConfigError(f"[{section}] {name}: it has a $ that names no option; write $$ for a $") from None
        except cfg.Error as exc:
            text = " ".join(str(exc).split())
            file = text.partition(" from LocationInfo(")[2].partition("detail='")[2].partition("'")[0]
            reason = _NO_NUMBER.sub("it has to be a number, not ", text.partition(" is not valid: ")[2] or text)
            raise ConfigError(f"{file and file + ': '}[{section}] {name}: {reason}") from None


def register_options(conf: cfg.ConfigOpts, options: Sequence[cfg.Opt], section: str) -> None:
    """Register the options of a plugin, and read each of them once.

    :raises ConfigError: a value is wrong; the message names the option.
    """
    conf.register_opts(options, group=section)
    read_group(conf[section], section)


def plugin_names(namespace: str) -> list[str]:
    """The names of all plugins of a namespace, which are not loaded."""
    return [entry_point.name for entry_point in _entry_points(namespace)]


def why_missing(namespace: str, name: str) -> str:
    """Why the option ``driver`` names a plugin that is not there: it is not installed, or its module raises."""
    reasons: list[str] = []
    load_plugins(namespace, lambda _name, exc: reasons.append(described(exc)), [name])
    if reasons:
        return f"driver = {name} cannot be loaded: {reasons[-1]}"
    known = ", ".join(sorted(set(plugin_names(namespace)))) or "none"
    return f"driver = {name} is not installed; there are {known}"


def require_subclass(section: str, driver: str, plugin: Any, base: type[Any]) -> None:
    """Require that what a driver's entry point names is a driver.

    :param section: of the configuration that names the driver.
    :raises ConfigError: it is no subclass of the base.
    """
    if not (inspect.isclass(plugin) and issubclass(plugin, base)):
        raise ConfigError(f"[{section}] driver = {driver} is no subclass of {base.__module__}.{base.__qualname__}")


def make_driver(section: str, driver: str, make: Callable[[], T]) -> T:
    """Make an instance of a driver that the configuration names.

    :raises ConfigError: its class or an option is wrong; names the section and the driver.
    """
    try:
        return make()
    except ConfigError:
        raise
    except BaseException as exc:
        if interrupts(exc):
            raise
        raise ConfigError(f"[{section}] driver = {driver} cannot be used: {described(exc)}") from exc


def _entry_points(namespace: str) -> list[EntryPoint]:
    listing: ExtensionManager[Any] = ExtensionManager.make_test_instance([], namespace)  # loads nothing by itself
    return listing.list_entry_points()
