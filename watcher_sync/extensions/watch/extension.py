# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Extension

if TYPE_CHECKING:
    from watcher_sync.conf.findings import NamedFile


class WatchExtension(Extension):
    """See the module."""

    def insecure_access(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.watch.findings`."""
        from watcher_sync.extensions.watch import findings

        return findings.insecure_access(conf)

    def insecure_transports(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.watch.findings`."""
        from watcher_sync.extensions.watch import findings

        return findings.insecure_transports(conf)

    def named_files(self, conf: cfg.ConfigOpts) -> Iterable[NamedFile]:
        """See :mod:`watcher_sync.extensions.watch.findings`."""
        from watcher_sync.extensions.watch import findings

        return findings.named_files(conf)
