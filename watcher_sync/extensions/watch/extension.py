# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Extension

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route


class WatchExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.conf import outlet_watch

        return [(outlet_watch.GROUP, outlet_watch.OPTS)]

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.watch.api import events, resources

        return [*events.routes(api.service), *resources.routes(api.service)]
