# SPDX-License-Identifier: Apache-2.0
"""Checks the options of ``[outlet_watch]`` without gRPC, which must not be imported before a fork."""

from __future__ import annotations

import ssl

from oslo_config import cfg

from watcher_sync.api.identity.authentication import is_loopback
from watcher_sync.conf.outlet_watch import GROUP, auth_strategy
from watcher_sync.exceptions import ConfigError
from watcher_sync.watch import callers


def check(conf: cfg.ConfigOpts) -> None:
    """Check the options. It contacts nothing.

    :raises ConfigError: one cannot work.
    """
    group = conf[GROUP]
    if auth_strategy(conf) == "noauth" and not group.noauth_allow_remote and not is_loopback(group.host):
        raise ConfigError(
            f"[{GROUP}] host = {group.host}: with auth_strategy = noauth it must be a loopback address, "
            "unless noauth_allow_remote is set"
        )
    callers.check(conf)
    _check_tls(conf)


def _check_tls(conf: cfg.ConfigOpts) -> None:
    group = conf[GROUP]
    if bool(group.tls_cert) != bool(group.tls_key):
        missing = "tls_key" if group.tls_cert else "tls_cert"
        raise ConfigError(f"[{GROUP}] {missing}: not set; tls_cert and tls_key belong together")
    if group.tls_client_ca and not group.tls_cert:
        raise ConfigError(f"[{GROUP}] tls_client_ca: needs tls_cert and tls_key")
    if not group.tls_cert:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(group.tls_cert, group.tls_key)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"[{GROUP}] tls_cert, tls_key: {group.tls_cert}, {group.tls_key}: {exc}") from None
    if group.tls_client_ca:
        try:
            context.load_verify_locations(group.tls_client_ca)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(f"[{GROUP}] tls_client_ca: {group.tls_client_ca}: {exc}") from None
