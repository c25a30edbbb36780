# SPDX-License-Identifier: Apache-2.0
"""Reports that the process takes more and more memory although the model does not grow.

A plugin that collects what it gets ends the process hours later, without a trace of the cause. So the watchdog's
thread compares the memory with that of the time when the model had half of its present entities, or more. A report
names the containers of plugins that grew meanwhile.

Only Linux has the figure; elsewhere nothing is reported.
"""

from __future__ import annotations

import collections
import datetime
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_FACTOR: Final = 2.0
"""Growth of the memory beyond that of the model which is reported, and growth of the model after which a new
comparison begins."""
_MIN_GROWTH: Final = 256 * 2**20
"""Bytes. A reconciliation or an import takes less for a short time."""
_MAX_OBJECTS: Final = 10_000
"""Objects whose attributes are read for one report."""
_MAX_SHOWN: Final = 3
_STATM: Final = Path("/proc/self/statm")
_CONTAINERS: Final[tuple[Any, ...]] = (dict, list, set, collections.deque, bytearray)


class _Figures(msgspec.Struct, frozen=True):
    """What later figures are compared with."""

    at: datetime.datetime
    resident: int
    """Bytes."""
    entities: int
    sizes: dict[str, int]
    """Name of a container -> its items."""


class MemoryWatch:
    """Compares the memory of the process with its past. For one thread.

    :param entities: returns the number of entities of the model.
    :param plugins: returns the objects of plugins whose containers are to be named, such as handlers and sources.
    :param resident: returns the bytes of the process that are in memory; None: unknown.
    """

    def __init__(
        self,
        entities: Callable[[], int],
        plugins: Callable[[], Iterable[object]],
        *,
        resident: Callable[[], int | None] | None = None,
    ) -> None:
        self._entities = entities
        self._plugins = plugins
        self._resident = resident or resident_bytes
        self._base: _Figures | None = None

    def check(self) -> None:
        """Report it if the memory has doubled since the last report, and the model has not."""
        resident, entities, base = self._resident(), self._entities(), self._base
        if resident is None:
            return
        if base is None or entities > _FACTOR * base.entities:
            self._base = self._now(resident, entities)
            return
        model = max(1.0, entities / max(base.entities, 1))
        if resident - base.resident < _MIN_GROWTH or resident < _FACTOR * model * base.resident:
            return
        self._base = self._now(resident, entities)
        LOG.warning(
            "The process has %d MiB in memory, %.1f times as much as at %s, and the model has %.1f times as many"
            " entities: a plugin may leak. What grew in the plugins: %s",
            resident >> 20,
            resident / base.resident,
            f"{base.at:%Y-%m-%dT%H:%M:%SZ}",
            model,
            _growth(base.sizes, self._base.sizes),
        )

    def _now(self, resident: int, entities: int) -> _Figures:
        LOG.debug("Later memory is compared with %d MiB at %d entities", resident >> 20, entities)
        return _Figures(datetime.datetime.now(datetime.UTC), resident, entities, container_sizes(self._plugins()))


def resident_bytes() -> int | None:
    """The bytes of this process that are in memory; None where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def container_sizes(plugins: Iterable[object]) -> dict[str, int]:
    """Name of each container in the attributes of plugins, and in their modules -> its items.

    Objects of classes of the same distributions are followed.
    """
    roots = list(plugins)
    packages = {_package(type(plugin)) for plugin in roots}
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in packages]
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    pending = [*roots, *modules]
    while pending and len(seen) < _MAX_OBJECTS:
        owner = pending.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for name, value in _attributes(owner):
            container = next((each for each in _CONTAINERS if issubclass(type(value), each)), None)
            if container is not None:
                full = f"{_name(owner)}.{name}"
                # Neither len() nor isinstance(): they may run code of the plugin.
                sizes[full] = sizes.get(full, 0) + container.__len__(value)
            elif _package(value if issubclass(type(value), type) else type(value)) in packages:
                pending.append(value)
    return sizes


def _growth(before: dict[str, int], now: dict[str, int]) -> str:
    """The containers that grew most."""
    grown = sorted(((size - before.get(name, 0), name) for name, size in now.items()), reverse=True)
    found = [f"{name} by {more} to {now[name]} items" for more, name in grown[:_MAX_SHOWN] if more > 0]
    return ", ".join(found) or "no container that an attribute of theirs has"


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    try:
        attributes = list(vars(owner).items())
    except TypeError:  # it has none but slots
        return
    yield from ((name, value) for name, value in attributes if not name.startswith("__"))


def _package(of: type) -> str:
    return str(getattr(of, "__module__", "")).partition(".")[0]


def _name(owner: Any) -> str:
    if issubclass(type(owner), types.ModuleType):
        return str(owner.__name__)
    of = owner if issubclass(type(owner), type) else type(owner)
    return f"{of.__module__}.{of.__qualname__}"
