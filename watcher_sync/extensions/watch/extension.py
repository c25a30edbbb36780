# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from oslo_config import cfg

from watcher_sync.extension import Extension, Wsgi


class WatchExtension(Extension):
    """See the module."""

    def authentication(self, conf: cfg.ConfigOpts) -> Iterable[Callable[[Wsgi, Wsgi], Wsgi]]:
        """Bearer tokens on the paths of agents."""
        from watcher_sync.conf.outlet_watch import auth_strategy

        if conf.api.auth_strategy != "keystone" and auth_strategy(conf) != "jwt":
            return ()
        from watcher_sync.watch import bearer_tokens

        return [functools.partial(bearer_tokens.wrap, conf=conf)]
