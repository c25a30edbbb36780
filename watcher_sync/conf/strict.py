# SPDX-License-Identifier: Apache-2.0
"""Rejects sections and options that no module declares.

oslo.config ignores unregistered names, so a typing mistake would have no visible effect. This module reads the files
again. It compares every section and option with all names that any executable of this package could register,
deprecated names included.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from oslo_config import cfg, iniparser
from oslo_log import log as logging

from watcher_sync.conf import cloud_account, keystone, opts
from watcher_sync.exceptions import ConfigError

LOG = logging.getLogger(__name__)

_NAMESPACES = (
    "oslo.log",
    "oslo.db",
    "oslo.messaging",
    "oslo.policy",
    "oslo.middleware",
    "oslo.service.service",
    "oslo.reports",
    "keystonemiddleware.auth_token",
    "keystonemiddleware.audit",
)
"""Libraries whose options may be in our files, by the names of their entry points in the group _GROUP."""

_GROUP = "oslo.config.opts"

_ACCOUNTS = {"auth_type", "auth-type", "auth_section", "auth-section", "cloud"}
"""Without one of them, a section with an account has no options of keystoneauth."""

_REMOVED = {"oslo_messaging_rabbit": {"heartbeat_in_pthread"}}
"""Options that a library has removed, that decided nothing here, and that deployment tools still write."""

_ALWAYS = 2
"""Every process imports this many libraries at the head of _NAMESPACES in any case."""


def check(conf: cfg.ConfigOpts) -> None:
    """Check the files of ``conf``.

    :raises ConfigError: a name is unknown. The message names the file, the section, the option, and a similar name.
    """
    parsed: dict[str, dict[str, dict[str, str]]] = {}
    for name in _files(conf):
        parser = _Reader()
        with open(name, encoding="utf-8") as lines:
            try:
                parser.parse(lines)
            except (iniparser.ParseError, UnicodeDecodeError) as exc:
                raise ConfigError(f"{name}: {exc}") from None
        parsed[name] = parser.found
        _drop_removed(name, parser.found)
    known: dict[str, set[str]] = {"DEFAULT": {"config_file", "config_dir"}}
    _add(known, opts.own_opts())
    sections = list(dict.fromkeys(itertools.chain.from_iterable(parsed.values())))
    listers = itertools.chain(
        keystone.listers(conf),
        cloud_account.listers(conf, set(sections).intersection(opts.sections_with_account())),
        _listers(parsed),
        # Lazily: the plugins have said which sections they have.
        cloud_account.listers(conf, (name for name in sections if cloud_account.has_account(known.get(name, ())))),
    )
    # Modules that declare options are imported only while a name is still unknown.
    while _unknown(parsed, known, is_complete=False) is not None:
        listed = next(listers, None)
        if listed is None:
            break
        _add(known, listed())
    wrong = _unknown(parsed, known, is_complete=True)
    if wrong is not None:
        raise ConfigError(wrong)


def _drop_removed(name: str, found: Mapping[str, dict[str, str]]) -> None:
    for section, removed in _REMOVED.items():
        for option in removed & found.get(section, {}).keys():
            LOG.warning("%s: option %s in [%s] has no effect and is ignored", name, option, section)
            del found[section][option]


def _unknown(
    parsed: Mapping[str, Mapping[str, Mapping[str, str]]], known: Mapping[str, set[str]], *, is_complete: bool
) -> str | None:
    """The error message for the first unknown name; None if all names are known.

    :param is_complete: whether ``known`` has the names of all modules.
    """
    drivers, instances = _drivers(parsed), _Instances(parsed)
    for name, found in parsed.items():
        for section, values in found.items():
            allowed = known.get(section)
            driver = drivers.get(section)
            if (prefix := instances.prefix(section)) and (driver or instances.may_be(section)):
                allowed = known.get(f"{prefix}{driver}") if driver else None
                if allowed is None:
                    if driver and not is_complete:
                        return f"{name}: unknown driver {driver} in [{section}]"
                    continue  # the assembly reports a missing or unknown driver
            elif allowed is None:
                return f"{name}: unknown section [{section}]{_suggestion(section, known)}"
            for option in values:
                if option.replace("-", "_") not in allowed:
                    where = f"[{section}]"
                    if cloud_account.has_account(allowed) and not any(
                        found.get(section, {}).keys() & _ACCOUNTS for found in parsed.values()
                    ):
                        where += ", where auth_type is not set"
                    return f"{name}: unknown option {option} in {where}{_suggestion(option, allowed)}"
    return None


def _drivers(parsed: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, str]:
    """Section -> driver. A section may be in several files, and its driver in any of them."""
    return {s: v["driver"] for found in parsed.values() for s, v in found.items() if "driver" in v}


class _Instances:
    """The sections whose names an operator chose in part, and which have the options of their drivers."""

    def __init__(self, parsed: Mapping[str, Mapping[str, Mapping[str, str]]]) -> None:
        self._own = [section for section, _ in opts.own_opts()]
        self._prefixes: list[str] = []
        self._enabled: set[str] = set()
        for group in opts.plugin_groups().values():
            if group.enabled is not None:
                section, option = group.enabled
                self._prefixes.append(f"{group.prefix}_")
                lists = [found.get(section, {}).get(option, "") for found in parsed.values()]
                self._enabled |= {f"{group.prefix}_{name.strip()}" for each in lists for name in each.split(",")}

    def prefix(self, section: str) -> str:
        """What the name of a section begins with if the operator chose the rest; else empty."""
        if section in self._own:
            return ""
        return next((prefix for prefix in self._prefixes if section.startswith(prefix)), "")

    def may_be(self, section: str) -> bool:
        """Whether a section without a driver is one: a file enables it, or no section of ours has a similar name."""
        return section in self._enabled or not any(own.startswith(self.prefix(section)) for own in self._own)


class _Reader(iniparser.BaseParser):
    """Collects section -> {option: last value}."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}
        self._section = "DEFAULT"

    def new_section(self, section: str) -> None:
        self._section = section
        self.found.setdefault(section, {})

    def assignment(self, key: str, value: list[str]) -> None:
        self.found.setdefault(self._section, {})[key] = "\n".join(value)


def _files(conf: cfg.ConfigOpts) -> list[str]:
    files = list(conf.config_file or [])
    for folder in conf.config_dir or []:
        files += sorted(str(path) for path in pathlib.Path(folder).glob("*.conf"))
    return list(dict.fromkeys(files))


def _listers(
    parsed: Mapping[str, Mapping[str, Mapping[str, str]]],
) -> Iterator[Callable[[], Iterable[tuple[Any, Iterable[cfg.Opt]]]]]:
    """Functions that list more options: libraries that every process imports, then plugins, then other libraries.

    Of the plugins the drivers of the files are first, because the import of a driver takes long.
    """
    found = {entry_point.name: entry_point for entry_point in importlib.metadata.entry_points(group=_GROUP)}
    libraries = [found[name] for name in _NAMESPACES if name in found]
    for entry_point in libraries[:_ALWAYS]:
        yield entry_point.load()
    groups = opts.plugin_groups()
    for namespace in (name for name, group in groups.items() if group.enabled is not None):
        yield functools.partial(opts.list_plugin_opts, namespace, _drivers(parsed).values())
    for namespace in groups:
        yield functools.partial(opts.list_plugin_opts, namespace)
    for entry_point in libraries[_ALWAYS:]:
        yield entry_point.load()


def _add(known: dict[str, set[str]], listed: Iterable[tuple[Any, Iterable[cfg.Opt]]]) -> None:
    for group, options in listed:
        name = getattr(group, "name", group) or "DEFAULT"
        for option in options:
            known.setdefault(name, set()).update({option.name.replace("-", "_"), option.dest})
            for old in option.deprecated_opts:
                known.setdefault(old.group or name, set()).add((old.name or option.name).replace("-", "_"))


def _suggestion(word: str, candidates: Mapping[str, Any] | set[str]) -> str:
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {close[0]}?" if close else ""
