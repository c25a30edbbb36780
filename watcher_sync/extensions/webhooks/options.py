# SPDX-License-Identifier: Apache-2.0
"""``[outlet_webhook]``: the subscriptions of the API and their delivery by ``watcher-sync-outlet``."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from oslo_config import cfg

from watcher_sync.conf.networks import Network, NetworkText

GROUP = "outlet_webhook"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=True,
        advanced=True,
        help="Deliver webhooks. If it is false, the API accepts no subscriptions, and no worker delivers.",
    ),
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        max=64,
        help="""
Number of worker processes that deliver webhooks.

The workers of all machines share the subscriptions. If one dies, the others take its subscriptions over.

Related options: ``[database] lease_time``.
""",
    ),
    cfg.ListOpt(
        "allowed_networks",
        default=[],
        item_type=NetworkText(),
        mutable=True,
        help="""
Networks that are not public and that callbacks may be in, such as ``10.20.0.0/16,fd00:12::/32``.

Without this option a callback must be at a public address. The address of each connection is checked, not only the
name. A SIGHUP applies a new value.
""",
    ),
    cfg.BoolOpt(
        "allow_http",
        default=False,
        mutable=True,
        advanced=True,
        help="""
Accept callbacks with ``http://``. Everyone on the way can then read and change what is sent. A SIGHUP applies a new
value.
""",
    ),
    cfg.StrOpt(
        "ca_file",
        help="""
File with the certificates (PEM) of the authorities that callbacks may have certificates of.

By default the certificates of the operating system are used.
""",
    ),
    cfg.ListOpt(
        "secret_keys",
        default=[],
        secret=True,
        help="""
Keys that encrypt the signing secrets of subscriptions in the database: 32 random bytes each, in URL-safe base64.

``watcher-sync-manage subscription key`` prints a new one. The first key encrypts, and every key decrypts. To rotate,
add a new key behind the old one on all machines and restart their services, then put it first and restart them again.
Run ``watcher-sync-manage subscription reencrypt``, and remove the old key.

Without a key the API refuses subscriptions with a secret. The value must be the same for all API workers and outlets.
""",
    ),
    cfg.IntOpt(
        "secret_overlap",
        default=86_400,
        min=0,
        advanced=True,
        help="""
Seconds for which a replaced secret still signs, beside the new one. In this time the receiver changes its secret.
""",
    ),
    cfg.IntOpt(
        "max_subscriptions_per_project",
        default=1000,
        min=-1,
        advanced=True,
        help="Maximum number of subscriptions of a project; -1 sets no limit. The API answers a further one with 403.",
    ),
    cfg.FloatOpt(
        "total_timeout",
        default=15.0,
        min=1,
        max=120,
        advanced=True,
        help="Seconds that one attempt may take, from the look-up of the name to the end of the answer.",
    ),
    cfg.IntOpt(
        "max_connections",
        default=1000,
        min=1,
        max=10_000,
        advanced=True,
        help="""
Maximum number of attempts at one time in one worker.

Related options: ``connections_per_host``.
""",
    ),
    cfg.IntOpt(
        "connections_per_host",
        default=10,
        min=1,
        max=1000,
        advanced=True,
        help="Maximum number of attempts at one time at one host and port, in one worker.",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=1_048_576,
        min=32_768,
        max=8_388_608,
        advanced=True,
        help="""
Maximum size of a delivery in bytes. A larger one is sent without the status of its resources, and with
``"truncated": true``. If that is too large as well, it is sent without its resources, and with ``resources-omitted``.

On MariaDB and MySQL a delivery is also never larger than what ``max_allowed_packet`` of the server permits.
""",
    ),
    cfg.IntOpt(
        "suspend_after",
        default=432_000,
        min=60,
        advanced=True,
        help="Seconds of failures after which a subscription is suspended; the default is five days.",
    ),
    cfg.IntOpt(
        "suspend_after_failures",
        default=0,
        min=0,
        advanced=True,
        help="Failed attempts in sequence after which a subscription is suspended; 0 sets no limit.",
    ),
    cfg.PortOpt(
        "monitoring_port",
        default=0,
        help="""
TCP port on which the first worker serves ``/healthz`` and ``/metrics``; each further worker uses the next port. 0
disables the servers.

Related options: ``[monitoring] host``, ``workers``.
""",
    ),
    cfg.IntOpt(
        "delivery_log_days",
        default=7,
        min=1,
        mutable=True,
        advanced=True,
        help="Days after which ended deliveries, and deleted subscriptions, are purged. A SIGHUP applies a new value.",
    ),
]


def parsed_networks(texts: Sequence[str]) -> list[Network]:
    """The networks of ``allowed_networks``."""
    return [ipaddress.ip_network(text) for text in texts]
