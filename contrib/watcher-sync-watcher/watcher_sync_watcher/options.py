# SPDX-License-Identifier: Apache-2.0
"""The options of ``[watcher_cluster_data_model_collectors.watcher_sync]``, which all collectors read."""

from __future__ import annotations

from oslo_config import cfg

NAMESPACE = "watcher_cluster_data_model_collectors"
"""Watcher's entry points of collectors."""

GROUP = f"{NAMESPACE}.watcher_sync"

CONNECTION: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "A token of the user in [watcher_clients_auth]. It must be an administrator, or a reader of "
                         "the system."),
            ("noauth", "No token. The API of watcher_sync must run with auth_strategy = noauth on this machine."),
        ],
        help="How the collectors authenticate at the API of watcher_sync.",
    ),
    cfg.URIOpt(
        "endpoint",
        schemes=["http", "https"],
        help="""
URL of the API of watcher_sync, without ``/v1``.

By default it is looked up in Keystone's catalog. ``auth_strategy = noauth`` needs it.

Related options: ``service_type``, ``interface``, ``region_name``.
""",
    ),
    cfg.StrOpt("service_type", default="watcher-sync", help="Type of the service in Keystone's catalog."),
    cfg.StrOpt(
        "interface",
        default="internal",
        choices=["internal", "public", "admin"],
        help="Interface of the endpoint in Keystone's catalog.",
    ),
    cfg.StrOpt("region_name", help="Region of the endpoint in Keystone's catalog. By default any region."),
    cfg.FloatOpt(
        "timeout",
        default=60.0,
        min=1.0,
        help="""
Seconds without an answer after which a request without authentication fails.

A request with a token has the ``timeout`` of ``[watcher_clients_auth]``. A failed request is repeated as
``[collector] api_query_max_retries`` and ``api_query_interval`` say.
""",
    ),
]  # fmt: skip

COMPUTE: list[cfg.Opt] = [
    *CONNECTION,
    cfg.BoolOpt(
        "check_optimize_metadata",
        default=True,
        help="Apply the exclusion ``instance_metadata`` of an audit's scope.",
    ),
]
