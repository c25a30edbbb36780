# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oslo_config import cfg

from watcher_sync.extension import Extension


class WatchExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.conf import outlet_watch

        return [(outlet_watch.GROUP, outlet_watch.OPTS)]
