# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Extension

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route


class WebhookExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.conf import outlet_webhook

        return [(outlet_webhook.GROUP, outlet_webhook.OPTS)]

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.webhooks.api import subscriptions

        return subscriptions.routes(api.service)
