# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Extension, OutletProcess, OutletWorker, Wsgi

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route
    from watcher_sync.conf.findings import NamedFile


class WatchExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.extensions.watch import options

        return [(options.GROUP, options.OPTS)]

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.watch.api import events, resources

        return [*events.routes(api.service), *resources.routes(api.service)]

    def outlet_processes(self, conf: cfg.ConfigOpts) -> Iterable[OutletProcess]:
        from watcher_sync.extensions.watch import options

        return [
            OutletProcess(
                name="watcher-sync-outlet-watch",
                enabled_by="[outlet_watch] enabled",
                workers=1 if options.is_enabled(conf) else 0,
                check=_check,
                assemble=_assemble,
                section=options.GROUP,
                ports={"[outlet_watch] port": conf.outlet_watch.port},
            )
        ]

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

    def authentication(self, conf: cfg.ConfigOpts) -> Iterable[Callable[[Wsgi, Wsgi], Wsgi]]:
        """Bearer tokens on the paths of agents."""
        from watcher_sync.extensions.watch.options import auth_strategy

        if conf.api.auth_strategy != "keystone" and auth_strategy(conf) != "jwt":
            return ()
        from watcher_sync.extensions.watch import bearer_tokens

        return [functools.partial(bearer_tokens.wrap, conf=conf)]


def _check(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: an option or the policy cannot work."""
    # Imported here: they import the REST API, which an outlet of webhooks does not use.
    from watcher_sync.assembly import api
    from watcher_sync.extensions.watch import settings

    settings.check(conf)
    api.check_policy(conf)


def _assemble(conf: cfg.ConfigOpts) -> OutletWorker:
    # Imported here: gRPC must not be imported before the fork.
    from watcher_sync.extensions.watch import assembly

    return assembly.assemble(conf)
