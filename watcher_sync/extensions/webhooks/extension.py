# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Extension, ManageCommand, OutletProcess

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route


class WebhookExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.extensions.webhooks import options

        return [(options.GROUP, options.OPTS)]

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.webhooks.api import subscriptions

        return subscriptions.routes(api.service)

    def outlet_processes(self, conf: cfg.ConfigOpts) -> Iterable[OutletProcess]:
        from watcher_sync.extensions.webhooks import assembly, options

        return [
            OutletProcess(
                name="watcher-sync-outlet",
                enabled_by="[outlet_webhook] enabled",
                workers=conf.outlet_webhook.workers if conf.outlet_webhook.enabled else 0,
                check=assembly.check,
                assemble=assembly.assemble,
                section=options.GROUP,
            )
        ]

    def commands(self) -> Iterable[ManageCommand]:
        return [
            ManageCommand(
                name="subscription",
                work="watcher_sync.extensions.webhooks.command:subscription",
                text="Manage the keys that encrypt the secrets of subscriptions.",
                add_arguments=_add_arguments,
            )
        ]

    def insecure_access(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.webhooks.findings`."""
        from watcher_sync.extensions.webhooks import findings

        return findings.insecure_access(conf)

    def insecure_transports(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.webhooks.findings`."""
        from watcher_sync.extensions.webhooks import findings

        return findings.insecure_transports(conf)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=["key", "reencrypt"],
        help="key: print a new key for [outlet_webhook] secret_keys; reencrypt: encrypt all secrets with the first key",
    )
