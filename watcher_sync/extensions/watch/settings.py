# SPDX-License-Identifier: Apache-2.0
"""The settings that the options of ``[outlet_watch]`` make: their check, and the limits and times of the server.

It imports no gRPC, which must not be imported before a fork.
"""

from __future__ import annotations

import msgspec
from oslo_config import cfg

from watcher_sync.conf import files
from watcher_sync.conf.networks import is_loopback
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.watch import callers
from watcher_sync.extensions.watch.bearer_tokens import EXPIRY_GRACE_SECONDS
from watcher_sync.extensions.watch.options import GROUP, auth_strategy


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8776
    max_streams: int = 10_000
    max_streams_per_identity: int = 256
    max_queued_events: int = 1_000
    max_request_bytes: int = 65_536
    first_request_timeout: float = 360.0
    ping_interval: float = 30.0
    min_keepalive_interval: float = 10.0
    """The shortest interval of a client's HTTP/2 pings while no stream is open."""
    topic_poll_interval: float = 0.5
    token_retry_interval: float = 5.0
    """Between two checks of a token while the identity service is unavailable."""
    expiry_grace: float = EXPIRY_GRACE_SECONDS
    reflection: bool = False
    probe_request_timeout: float = 10.0
    """For the request of a health check or watch, which follows its headers at once."""

    @property
    def max_unsubscribed(self) -> int:
        """The streams without a subscription: half of all, so clients without a token leave room for others.

        Health watches and reflection calls are no such streams; there may be as many of them.
        """
        return (self.max_streams + 1) // 2


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


def settings_of(conf: cfg.ConfigOpts) -> WatchSettings:
    """The limits and times of ``[outlet_watch]``."""
    group = conf[GROUP]
    return WatchSettings(
        host=group.host,
        port=group.port,
        max_streams=group.max_streams,
        max_streams_per_identity=group.max_streams_per_identity,
        max_queued_events=group.max_queued_events,
        max_request_bytes=group.max_request_bytes,
        first_request_timeout=group.first_request_timeout,
        ping_interval=group.ping_interval,
        min_keepalive_interval=group.min_keepalive_interval,
        reflection=group.reflection,
    )


def _check_tls(conf: cfg.ConfigOpts) -> None:
    group = conf[GROUP]
    if bool(group.tls_cert) != bool(group.tls_key):
        missing = "tls_key" if group.tls_cert else "tls_cert"
        raise ConfigError(f"[{GROUP}] {missing}: not set; tls_cert and tls_key belong together")
    if group.tls_client_ca and not group.tls_cert:
        raise ConfigError(f"[{GROUP}] tls_client_ca: needs tls_cert and tls_key")
    if not group.tls_cert:
        return
    names = ("tls_client_ca", "tls_cert", "tls_key")
    files.check_tls(GROUP, *((name, group[name]) for name in names))
