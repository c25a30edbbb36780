# SPDX-License-Identifier: Apache-2.0
"""Asks the classes of enabled drivers for what they declare about their sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError, interrupts
from watcher_sync.plugins import load_plugins

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def gather_declared(
    conf: cfg.ConfigOpts, namespace: str, names: Iterable[str], declared: Callable[[Any, str], Iterable[T]]
) -> list[T]:
    """All that the drivers of these sections declare, in the order of the names.

    A driver that is not installed declares nothing, nor does one that raises a ConfigError: other checks report these.
    A driver that raises anything else is logged and left out.

    :param namespace: the entry point group of the drivers, one of :data:`watcher_sync.conf.opts.PLUGINS`.
    :param names: of the sections, without the prefix.
    :param declared: takes the class and the section, whose options are registered.
    """
    prefix, common = opts.PLUGINS[namespace]
    found: list[T] = []
    for name in dict.fromkeys(names):
        section = f"{prefix}_{name}"
        conf.register_opts(common, group=section)
        for driver in load_plugins(namespace, lambda *_: None, [conf[section].driver]):
            try:
                conf.register_opts(driver.plugin.options, group=section)
                found.extend(list(declared(driver.plugin, section)))
            except ConfigError:
                continue
            except BaseException as exc:
                if interrupts(exc):
                    raise
                LOG.error("[%s] driver = %s fails and is left out here", section, driver.name, exc_info=exc)
    return found
