# SPDX-License-Identifier: Apache-2.0
"""The address of the broker, as oslo.messaging has it: a ``transport_url`` and ``[oslo_messaging_rabbit]``.

An option in the query of the URL goes before the same option of the group. The names and defaults of the options are
those of oslo.messaging, so that one file serves both. Options that only a publisher or its client library needs are
accepted and not used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.conf import files, urls
from watcher_sync.conf.findings import is_local, place
from watcher_sync.conf.private import read_privately
from watcher_sync.exceptions import ConfigError
from watcher_sync.plugins import register_options
from watcher_sync.transports.scrubbing import without_secrets

GROUP: Final = "oslo_messaging_rabbit"

DEFAULT_PORT: Final = 5672

_SCHEMES: Final = ("rabbit", "amqp", "kombu+rabbit", "kombu+amqp")

_OPTIONS: Final = [
    cfg.BoolOpt("ssl", default=False),
    cfg.StrOpt("ssl_version", default=""),
    cfg.StrOpt("ssl_key_file", default=""),
    cfg.StrOpt("ssl_cert_file", default=""),
    cfg.StrOpt("ssl_ca_file", default=""),
    cfg.BoolOpt("ssl_enforce_hostname_verification", default=True),
    cfg.StrOpt("rabbit_login_method", default="AMQPLAIN"),
    cfg.IntOpt("heartbeat_timeout_threshold", default=60, min=0),
    cfg.IntOpt("rabbit_qos_prefetch_count", default=0, min=0, max=65535),
    cfg.BoolOpt("rabbit_quorum_queue", default=False),
    cfg.IntOpt("rabbit_quorum_delivery_limit", default=0),
    cfg.IntOpt("rabbit_quorum_max_memory_length", default=0),
    cfg.IntOpt("rabbit_quorum_max_memory_bytes", default=0),
    cfg.BoolOpt("rabbit_ha_queues", default=False),
    cfg.BoolOpt("amqp_durable_queues", default=False),
    cfg.BoolOpt("amqp_auto_delete", default=False),
    cfg.BoolOpt("enable_cancel_on_failover", default=False),
]

_NOT_USED: Final = frozenset(
    {
        "conn_pool_min_size",
        "conn_pool_ttl",
        "direct_mandatory_flag",
        "heartbeat_in_pthread",
        "heartbeat_rate",
        "hostname",
        "kombu_compression",
        "kombu_failover_strategy",
        "kombu_missing_consumer_retry_timeout",
        "kombu_reconnect_delay",
        "kombu_reconnect_splay",
        "kombu_reconnect_timeout",
        "processname",
        "rabbit_interval_max",
        "rabbit_retry_backoff",
        "rabbit_retry_interval",
        "rabbit_stream_fanout",
        "rabbit_transient_queues_ttl",
        "rabbit_transient_quorum_queue",
        "rpc_conn_pool_size",
        "ssl_enforce_fips_mode",
        "use_queue_manager",
    }
)
"""Options of oslo.messaging that a URL may have and that mean nothing to a consumer."""


class BrokerHost(msgspec.Struct, frozen=True):
    """One node of the cluster."""

    name: str
    port: int
    user: str
    password: str

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"

    def __repr__(self) -> str:
        return f"<Host {self}>"


class Broker(msgspec.Struct, frozen=True):
    """Where to connect, and what oslo.messaging's options say of the connection and of the queue."""

    hosts: list[BrokerHost]
    virtual_host: str
    options: dict[str, Any]
    """Option of :data:`GROUP` -> value."""

    def shuffled(self) -> list[BrokerHost]:
        """The hosts in random order, so that many consumers do not prefer one node."""
        return random.sample(self.hosts, len(self.hosts))

    def without_secrets(self, text: str) -> str:
        """A text without the passwords of the URL."""
        return without_secrets(text, [host.password for host in self.hosts])


def read_broker(section: str, url: str | None, conf: cfg.ConfigOpts, *, strict: bool = True) -> Broker:
    """The broker of a ``transport_url``.

    :param section: that has the URL, for errors.
    :param conf: names the files that have the group :data:`GROUP`.
    :param strict: refuse options in the URL that are unknown here. oslo.messaging ignores those that it does not know.
    :raises ConfigError: naming the option that is wrong; never with a secret.
    """
    option = f"[{section}] transport_url"
    if not url:
        raise ConfigError(f"{option}: not set")
    urls.check_login(section, "transport_url", url)
    # Imported here: the library loads for long, and most processes only read the options of the driver.
    import oslo_messaging

    private = _private_conf(conf)
    try:
        parsed = oslo_messaging.TransportURL.parse(private, url)
    except (oslo_messaging.InvalidTransportURL, ValueError):
        # The library's message shows the URL with its password.
        raise ConfigError(f"{option}: not of the form rabbit://user:password@host:port/virtual_host") from None
    if parsed.transport not in _SCHEMES:
        raise ConfigError(f"{option}: {parsed.transport}:// is not for this driver, which needs rabbit://")
    hosts = [
        BrokerHost(
            host.hostname or "localhost", host.port or DEFAULT_PORT, host.username or "guest", host.password or "guest"
        )
        for host in parsed.hosts
    ] or [BrokerHost("localhost", DEFAULT_PORT, "guest", "guest")]
    options = {option.dest: private[GROUP][option.dest] for option in _OPTIONS}
    options |= _from_query(section, parsed.query, strict)
    if options["ssl"]:
        names = ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")
        files.check_tls(GROUP, *((name, options[name]) for name in names))
    return Broker(hosts, parsed.virtual_host or "/", options)


def insecure_broker(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    """Findings about the broker of a section's ``transport_url``.

    :raises ConfigError: naming the option that is wrong, or a transport that is not RabbitMQ.
    """
    broker = read_broker(section, conf[section].transport_url, conf, strict=False)
    remote = [host.name for host in broker.hosts if not is_local(host.name)]
    where = place(conf, "transport_url", section)
    if remote and not broker.options["ssl"]:
        yield (
            f"{where}: messages and the password for {remote[0]} cross the network without TLS; set ssl = true and "
            f"ssl_ca_file in [{GROUP}]."
        )
    elif remote and not broker.options["ssl_ca_file"]:
        yield f"{where}: the certificate of {remote[0]} is not verified; set ssl_ca_file in [{GROUP}]."


def _from_query(section: str, query: Mapping[str, str], strict: bool) -> dict[str, Any]:
    known = {option.dest: option for option in _OPTIONS}
    values: dict[str, Any] = {}
    for name, text in query.items():
        if name in known:
            try:
                values[name] = known[name].type(text)
            except ValueError as exc:
                raise ConfigError(f"[{section}] transport_url: {name}: {exc}") from None
        elif strict and name not in _NOT_USED:
            raise ConfigError(f"[{section}] transport_url: its query has {name!r}, which is no option of [{GROUP}]")
    return values


def _private_conf(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """A configuration of the same files: libraries register the same group with options of their own."""
    private = read_privately(conf)
    register_options(private, _OPTIONS, GROUP)
    # Of a file it is meant for RPC: deployment tools set 1, which makes one round trip of each message.
    private.set_override("rabbit_qos_prefetch_count", 0, group=GROUP)
    return private
