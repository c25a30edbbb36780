# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Extension

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route


class DcmExtension(Extension):
    """See the module."""

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.dcm.api import provider_bindings, service_type_instances

        return [
            *provider_bindings.routes(api.service, api.writer),
            *service_type_instances.routes(api.service, api.writer),
        ]

    def insecure_access(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.dcm.findings`."""
        from watcher_sync.extensions.dcm import findings

        return findings.insecure_access(conf)
