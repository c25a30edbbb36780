# SPDX-License-Identifier: Apache-2.0
"""Loads the entity kinds of the installed packages: ours and those of plugins, from the same entry points."""

from __future__ import annotations

import inspect
from typing import Final

from oslo_log import log as logging

from watcher_sync.exceptions import text_of
from watcher_sync.model.kinds import Entity, Kinds, kind_of
from watcher_sync.plugins import load_plugins

LOG = logging.getLogger(__name__)

ENTITIES: Final = "watcher_sync.entities"


def load_kinds() -> Kinds:
    """The kinds of this package, and after them those of plugins.

    Those of one module are in the order of their declaration. The modules are in the order of the names of their entry
    points.

    :raises PluginConflict: two plugins declare the same kind.
    """
    found = load_plugins(
        ENTITIES, lambda name, exc: LOG.error("entity plugin %s: cannot be loaded: %s", name, text_of(exc))
    )
    found.sort(key=lambda each: (not each.module.startswith("watcher_sync."), each.name))
    modules: dict[str, list[type[Entity]]] = {}
    for each in found:
        if inspect.isclass(each.plugin) and issubclass(each.plugin, Entity):
            modules.setdefault(each.module, []).append(each.plugin)
        else:
            LOG.error("entity plugin %s: is not an Entity class", each.name)
    return Kinds(*(cls for classes in modules.values() for cls in sorted(classes, key=lambda c: kind_of(c).number)))
