# SPDX-License-Identifier: Apache-2.0
"""What the upgrade check examines of providers."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from watcher_sync.conf.drivers import enabled_sources
from watcher_sync.conf.findings import place
from watcher_sync.extensions.dcm.handler.handler import DcmHandler


def insecure_access(conf: cfg.ConfigOpts) -> Iterator[str]:
    """A finding if a provider can report the status of another provider's instances."""
    if not {driver for _, driver in enabled_sources(conf)} & set(DcmHandler.drivers):
        return
    conf.register_opts(DcmHandler.options, group="handler_dcm")
    if conf.handler_dcm.source_policy in ("off", "warn"):
        where = place(conf, "source_policy", "handler_dcm")
        yield (
            f"{where}: with {conf.handler_dcm.source_policy} a provider can report the status of another provider's "
            "instances; set source_policy = bind or enforce."
        )
