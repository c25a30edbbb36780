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
    conf: cfg.ConfigOpts, declared: Callable[[Any, str], Iterable[T]], namespace: str | None = None
) -> list[T]:
    """All that the drivers of enabled sections declare, in the order of the names.

    A driver that is not installed declares nothing, nor does one that raises a ConfigError: other checks report these.
    A driver that raises anything else is logged and left out.

    :param declared: takes the class and the section, whose options are registered.
    :param namespace: the entry point group of the drivers; None: all groups whose sections name a driver.
    """
    found: list[T] = []
    for group_name, group in opts.plugin_groups().items():
        if group.enabled is None or namespace not in (None, group_name):
            continue
        enabling, option = group.enabled
        for name in dict.fromkeys(conf[enabling][option]):
            section = opts.register_instance(conf, group_name, name)
            for driver in load_plugins(group_name, lambda *_: None, [conf[section].driver]):
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


def enabled_sources(conf: cfg.ConfigOpts) -> list[tuple[str, str]]:
    """(name, driver) of each enabled source whose driver is installed, with the options of the driver registered."""
    return gather_declared(
        conf, lambda _, section: [(section.removeprefix("source_"), conf[section].driver)], opts.SOURCES
    )
