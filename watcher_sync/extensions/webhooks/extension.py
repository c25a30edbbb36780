# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_config import cfg

from watcher_sync.extension import Extension


class WebhookExtension(Extension):
    """See the module."""

    def insecure_access(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.webhooks.findings`."""
        from watcher_sync.extensions.webhooks import findings

        return findings.insecure_access(conf)

    def insecure_transports(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.webhooks.findings`."""
        from watcher_sync.extensions.webhooks import findings

        return findings.insecure_transports(conf)
