# SPDX-License-Identifier: Apache-2.0
"""Options that nobody knows are errors, not silence: a typing mistake must not run in production.

oslo.config ignores what is not registered. Here the files are read once more and every section and
option is held against everything that any executable of this package could register.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import pathlib
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg, iniparser

from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError

_NAMESPACES = (
    "oslo.log",
    "oslo.messaging",
    "oslo.db",
    "oslo.policy",
    "oslo.middleware",
    "oslo.service.service",
    "oslo.reports",
    "keystonemiddleware.auth_token",
)
"""Libraries whose options may stand in our files."""


def check(conf: cfg.ConfigOpts) -> None:
    """Hold the files that ``conf`` was made from against what is known.

    :raises ConfigError: naming the file, the section and the option, and what may have been meant.
    """
    known = _known()
    parsed: dict[str, dict[str, dict[str, str]]] = {}
    for name in _files(conf):
        parser = _Reader()
        with open(name, encoding="utf-8") as lines:
            try:
                parser.parse(lines)
            except iniparser.ParseError as exc:
                raise ConfigError(f"{name}: {exc}") from None
        parsed[name] = parser.found
    # A section may be told in several files, and its driver in any of them.
    drivers = {s: v["driver"] for found in parsed.values() for s, v in found.items() if "driver" in v}
    for name, found in parsed.items():
        for section, values in found.items():
            allowed = known.get(section)
            if section.startswith("source_"):
                driver = drivers.get(section)
                allowed = known.get(f"source_{driver}") if driver else None
                if allowed is None:
                    continue  # the driver is missing or unknown: said where the source is made
            elif allowed is None:
                raise ConfigError(f"{name}: unknown section [{section}]{_meant(section, known)}")
            for option in values:
                if option.replace("-", "_") not in allowed:
                    raise ConfigError(f"{name}: unknown option {option} in [{section}]{_meant(option, allowed)}")


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


def _known() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {"DEFAULT": {"config_file", "config_dir"}}
    listed = list(opts.list_opts())
    for entry_point in importlib.metadata.entry_points(group="oslo.config.opts"):
        if entry_point.name in _NAMESPACES:
            listed += entry_point.load()()
    for group, options in listed:
        name = getattr(group, "name", group) or "DEFAULT"
        for option in options:
            known.setdefault(name, set()).update({option.name.replace("-", "_"), option.dest})
            for old in option.deprecated_opts:
                known.setdefault(old.group or name, set()).add((old.name or option.name).replace("-", "_"))
    return known


def _meant(word: str, candidates: Mapping[str, Any] | set[str]) -> str:
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {close[0]}?" if close else ""
