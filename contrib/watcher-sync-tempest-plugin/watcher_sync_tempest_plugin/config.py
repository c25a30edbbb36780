# SPDX-License-Identifier: Apache-2.0
"""Options of ``tempest.conf``."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("watcher_sync", title="Tests of watcher_sync")

AVAILABLE = cfg.BoolOpt("watcher_sync", default=True, help="Whether the cloud has watcher_sync.")
"""An option of the group ``service_available``."""

OPTIONS = [
    cfg.StrOpt("catalog_type", default="watcher-sync", help="Type of the service in the catalog."),
    cfg.StrOpt("region", default="", help="Region of the endpoint. Empty: the region of the group identity."),
    cfg.StrOpt(
        "endpoint_type",
        default="public",
        choices=["public", "admin", "internal", "publicURL", "adminURL", "internalURL"],
        help="Which endpoint of the catalog is tested.",
    ),
    cfg.IntOpt("build_interval", default=1, min=1, help="Seconds between two requests for a change."),
    cfg.IntOpt("build_timeout", default=300, min=1, help="Seconds until the model must show a change of the cloud."),
    cfg.StrOpt(
        "callback_host",
        help="Address at which the outlet reaches the machine that runs the tests. [outlet_webhook] allow_http and "
        "allowed_networks of watcher_sync must permit it. Without it, tests of callbacks are skipped.",
    ),
    cfg.StrOpt(
        "kubernetes_url",
        help="URL of a Kubernetes API without authentication, such as the one of kubectl proxy. Without it, tests of "
        "the scaling of VNF instances are skipped.",
    ),
    cfg.StrOpt("kubernetes_cluster", default="edge", help="Name of this cluster in watcher_sync."),
    cfg.StrOpt("kubernetes_namespace", default="default", help="Namespace in which a test creates a Deployment."),
    cfg.StrOpt("kubernetes_image", default="nginx:alpine", help="Image of the pods of this Deployment."),
]
"""Options of the group ``watcher_sync``."""
