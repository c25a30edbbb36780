# SPDX-License-Identifier: Apache-2.0
"""The installed source drivers."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from oslo_log import log as logging
from stevedore import ExtensionManager

from watcher_sync.conf import opts
from watcher_sync.sources.base import Source

LOG = logging.getLogger(__name__)


@functools.cache
def load_drivers() -> dict[str, type[Source]]:
    """Name -> class of the drivers that can be imported."""
    manager: ExtensionManager[Any] = ExtensionManager(
        opts.SOURCES,
        on_load_failure_callback=lambda _m, e, exc: LOG.error("source driver %s: cannot be loaded: %s", e.name, exc),
    )
    return {extension.name: extension.plugin for extension in manager}


def missing_declaration(driver: str, cls: type[Source]) -> str | None:
    """Why a driver cannot be started: it does not declare what it may bring. None: it does."""
    for name in ("envelopes", "event_types"):
        value = getattr(cls, name, ())
        if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(v, str) for v in value):
            return f"the driver {driver} ({cls.__module__}) declares {name} = {value!r}, not a collection of names"
    if not cls.envelopes:
        return (
            f"the driver {driver} ({cls.__module__}) declares no envelopes, so it may bring no event: its class has to"
            " set Source.envelopes, and event_types unless handlers name the driver"
        )
    return None
