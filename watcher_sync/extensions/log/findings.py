# SPDX-License-Identifier: Apache-2.0
"""What the upgrade check examines of outlets: what their drivers declare."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.conf import opts
from watcher_sync.conf.drivers import gather_declared
from watcher_sync.conf.findings import NamedFile


def insecure_transports(conf: cfg.ConfigOpts) -> list[str]:
    """Findings about the connections of enabled outlets."""
    return gather_declared(
        conf, opts.OUTLETS, conf.outlets.enabled, lambda driver, section: driver.insecure_transports(conf, section)
    )


def named_files(conf: cfg.ConfigOpts) -> list[NamedFile]:
    """The files of enabled outlets."""
    return gather_declared(
        conf, opts.OUTLETS, conf.outlets.enabled, lambda driver, section: driver.named_files(conf, section)
    )
