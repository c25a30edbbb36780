# SPDX-License-Identifier: Apache-2.0
"""What the upgrade check examines of the watch stream."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from watcher_sync.conf.findings import NamedFile, place
from watcher_sync.conf.networks import is_loopback
from watcher_sync.extensions.watch.options import GROUP, auth_strategy, is_enabled


def insecure_access(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Findings about clients that may watch more than they should."""
    if not is_enabled(conf):
        return
    strategy = auth_strategy(conf)
    group = conf[GROUP]
    if strategy == "jwt" and not (group.jwt_issuer or group.jwt_audience):
        where = place(conf, "jwt_accept_any", GROUP)
        if group.jwt_accept_any:
            why = "tokens for other services are accepted; set jwt_audience or jwt_issuer, and remove the option."
        else:
            why = "neither jwt_issuer nor jwt_audience is set, so API and outlet do not start; set one of them."
        yield f"{where}: {why}"
    if strategy != "noauth":
        return
    where = place(conf, "auth_strategy", GROUP)
    yield f"{where}: with noauth every user of this machine may watch everything; set auth_strategy = keystone."
    if group.noauth_allow_remote:
        where = place(conf, "noauth_allow_remote", GROUP)
        yield f"{where}: with noauth every machine that reaches the port may watch everything; remove the option."


def insecure_transports(conf: cfg.ConfigOpts) -> Iterator[str]:
    """A finding if other machines reach the stream without TLS."""
    if is_enabled(conf) and not conf[GROUP].tls_cert and not is_loopback(conf[GROUP].host):
        where = place(conf, "tls_cert", GROUP)
        yield f"{where}: tokens and changes cross the network without TLS; set tls_cert and tls_key."


def named_files(conf: cfg.ConfigOpts) -> Iterator[NamedFile]:
    """The key of the server, and the keys that verify JSON Web Tokens, which are secret or public."""
    group = conf[GROUP]
    yield NamedFile(GROUP, "tls_key", group.tls_key)
    is_secret = any(name.startswith("HS") for name in group.jwt_algorithms)
    for path in group.jwt_key_files:
        yield NamedFile(GROUP, "jwt_key_files", path, has_secret=is_secret)
