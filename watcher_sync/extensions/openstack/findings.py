# SPDX-License-Identifier: Apache-2.0
"""What the upgrade check examines of accounts."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from watcher_sync.conf.insecure_account import find_insecure_account
from watcher_sync.extensions.openstack.conf.reconcile_nova import GROUP


def insecure_transports(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Findings about the accounts of reconcilers."""
    for section in conf.list_all_sections():
        is_used = conf[GROUP].enabled if section == GROUP else section.startswith("reconciler_")
        if is_used:
            yield from find_insecure_account(conf, section)
