# SPDX-License-Identifier: Apache-2.0
"""What the upgrade check examines of deliveries."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from oslo_config import cfg

from watcher_sync.conf.findings import place
from watcher_sync.conf.networks import Network
from watcher_sync.extensions.webhooks.options import GROUP, parsed_networks

_DANGEROUS_NETWORKS: Final = [
    (ipaddress.ip_network(network), consequence)
    for network, consequence in (
        ("127.0.0.0/8", "subscribers can reach services of the outlet's machine"),
        ("::1/128", "subscribers can reach services of the outlet's machine"),
        ("::ffff:127.0.0.0/104", "subscribers can reach services of the outlet's machine"),
        ("169.254.0.0/16", "subscribers can reach the metadata service of the outlet's machine"),
        ("fe80::/10", "subscribers can reach all neighbours of the outlet's machine"),
    )
]
"""(network, what a subscriber gains by it), the worst first."""


def insecure_access(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Findings about allowed networks in which more than receivers can be reached."""
    if not conf[GROUP].enabled:
        return
    where = place(conf, "allowed_networks", GROUP)
    for network in parsed_networks(conf[GROUP].allowed_networks):
        consequence = _consequence(network)
        if consequence:
            yield f"{where}: {network}: {consequence}; name only the networks of the receivers."


def insecure_transports(conf: cfg.ConfigOpts) -> Iterator[str]:
    """A finding if callbacks may have no TLS."""
    if conf[GROUP].enabled and conf[GROUP].allow_http:
        where = place(conf, "allow_http", GROUP)
        yield f"{where}: deliveries to http:// callbacks cross the network without TLS; remove the option."


def _consequence(network: Network) -> str:
    """What follows from an allowed network that is too large; empty: nothing."""
    if not network.prefixlen:
        return "subscribers can have the outlet connect to every address"
    reachable = (why for dangerous, why in _DANGEROUS_NETWORKS if network.overlaps(dangerous))
    return next(reachable, "")
