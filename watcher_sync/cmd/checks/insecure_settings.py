# SPDX-License-Identifier: Apache-2.0
"""Finds settings that let others read or change what only this service should: access and transports.

Each finding is one line: the option with its file, what follows from it, and the remedy. A transport to this machine
needs no TLS. Nothing here connects.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Iterator

from oslo_config import cfg
from sqlalchemy import exc as sa_exc

from watcher_sync.conf import keystone, opts, outlet_watch, outlet_webhook, reconcile_nova
from watcher_sync.conf.networks import Network, is_loopback
from watcher_sync.conf.private import read_privately
from watcher_sync.exceptions import ConfigError
from watcher_sync.handlers.dcm.handler import DcmHandler
from watcher_sync.sources.kubernetes.kubeconfig import KubeconfigError, read_kubeconfig
from watcher_sync.sources.nats.client_settings import CLIENT_OPTIONS, NatsClientSettings
from watcher_sync.sources.rabbitmq.broker import GROUP, read_broker
from watcher_sync.storage.database.database import url_of

RABBIT_SCHEMES = ("rabbit", "amqp", "kombu+rabbit", "kombu+amqp")
"""Of a transport_url whose broker is RabbitMQ."""
_ACCOUNT_URLS = re.compile(r"url$|endpoint$|_endpoint_override$")
"""The names of options of an account, to whose URLs its password or its tokens go."""
_PLAIN = "passwords and tokens cross the network without TLS; use an https URL."
_UNVERIFIED = "the certificates of Keystone and its services are not verified; remove the option, and set cafile."

_KAFKA_VERIFIES = {"enable.ssl.certificate.verification": "true", "ssl.endpoint.identification.algorithm": "https"}
"""Properties of librdkafka that verify a broker, with their defaults."""

_DANGEROUS_NETWORKS = [
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


def find_insecure_access(conf: cfg.ConfigOpts) -> list[str]:
    """Settings that let clients or providers do more than they should."""
    return [*_api(conf), *_watch(conf), *_monitoring(conf), *_providers(conf), *_callbacks(conf)]


def find_insecure_transports(conf: cfg.ConfigOpts) -> list[str]:
    """Connections to other machines without TLS, or without verification of the peer."""
    found = [*_database(conf), *_callbacks_without_tls(conf), *_watch_without_tls(conf), *_accounts(conf)]
    for section, driver in enabled_drivers(conf):
        group = conf[section]
        if driver == "kubernetes":
            found += _kubernetes(conf, section)
        elif driver == "federation":
            found += _region(conf, section)
        elif driver == "kafka":
            found += _kafka(conf, section)
        elif has_nats(group):
            found += _nats(conf, section)
        elif "transport_url" in group:
            found += _rabbit(conf, section, group.transport_url)
    return found


def enabled_drivers(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str | None]]:
    """(section, driver) of each enabled source and log, with the options of the driver registered if installed."""
    for name, driver in enabled_sources(conf):
        yield f"source_{name}", driver
    for name in dict.fromkeys(conf.outlets.enabled):
        opts.register_outlet(conf, name, [])
        driver = conf[f"outlet_{name}"].driver
        opts.register_outlet(conf, name, opts.plugin_options(opts.OUTLETS, [driver]).get(driver, []))
        yield f"outlet_{name}", driver


def has_nats(group: cfg.ConfigOpts.GroupAttr) -> bool:
    """Whether a section has the options of a connection to NATS."""
    return all(option.dest in group for option in CLIENT_OPTIONS)


def enabled_sources(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str | None]]:
    """(name, driver) of each enabled source, with the options of the driver registered if it is installed."""
    for name in dict.fromkeys(conf.engine.enabled_sources):
        opts.register_source(conf, name, [])
        driver = conf[f"source_{name}"].driver
        opts.register_source(conf, name, opts.plugin_options(opts.SOURCES, [driver]).get(driver, []))
        yield name, driver


def place(conf: cfg.ConfigOpts, option: str, group: str) -> str:
    """``[group] option (file)``; without the file if the value is a default."""
    try:
        location = conf.get_location(option, group)
    except (KeyError, cfg.NoSuchOptError, ValueError):
        location = None
    file = getattr(location, "detail", "") if location is not None and location.location.is_user_controlled else ""
    return f"[{group}] {option} ({file})" if file else f"[{group}] {option}"


def _api(conf: cfg.ConfigOpts) -> Iterator[str]:
    if conf.api.auth_strategy != "noauth":
        return
    where = place(conf, "auth_strategy", "api")
    yield f"{where}: with noauth every user of this machine may write everything; set auth_strategy = keystone."
    if conf.api.noauth_allow_remote:
        where = place(conf, "noauth_allow_remote", "api")
        yield f"{where}: with noauth every machine that reaches the port may write everything; remove the option."


def _watch(conf: cfg.ConfigOpts) -> Iterator[str]:
    if not outlet_watch.is_enabled(conf):
        return
    strategy = outlet_watch.auth_strategy(conf)
    group = conf.outlet_watch
    if strategy == "jwt" and not (group.jwt_issuer or group.jwt_audience):
        where = place(conf, "jwt_accept_any", outlet_watch.GROUP)
        if group.jwt_accept_any:
            why = "tokens for other services are accepted; set jwt_audience or jwt_issuer, and remove the option."
        else:
            why = "neither jwt_issuer nor jwt_audience is set, so API and outlet do not start; set one of them."
        yield f"{where}: {why}"
    if strategy != "noauth":
        return
    where = place(conf, "auth_strategy", outlet_watch.GROUP)
    yield f"{where}: with noauth every user of this machine may watch everything; set auth_strategy = keystone."
    if group.noauth_allow_remote:
        where = place(conf, "noauth_allow_remote", outlet_watch.GROUP)
        yield f"{where}: with noauth every machine that reaches the port may watch everything; remove the option."


def _watch_without_tls(conf: cfg.ConfigOpts) -> Iterator[str]:
    if outlet_watch.is_enabled(conf) and not conf.outlet_watch.tls_cert and not is_loopback(conf.outlet_watch.host):
        where = place(conf, "tls_cert", outlet_watch.GROUP)
        yield f"{where}: tokens and changes cross the network without TLS; set tls_cert and tls_key."


def _monitoring(conf: cfg.ConfigOpts) -> Iterator[str]:
    if conf.monitoring.port and not is_loopback(conf.monitoring.host):
        where = place(conf, "host", "monitoring")
        yield (
            f"{where}: other machines can read health and metrics without authentication; set host = 127.0.0.1, or "
            "restrict the port with a firewall."
        )


def _providers(conf: cfg.ConfigOpts) -> Iterator[str]:
    if not any(driver == "nats_jetstream" for _, driver in enabled_sources(conf)):
        return
    conf.register_opts(DcmHandler.options, group="handler_dcm")
    if conf.handler_dcm.source_policy in ("off", "warn"):
        where = place(conf, "source_policy", "handler_dcm")
        yield (
            f"{where}: with {conf.handler_dcm.source_policy} a provider can report the status of another provider's "
            "instances; set source_policy = bind or enforce."
        )


def _callbacks(conf: cfg.ConfigOpts) -> Iterator[str]:
    if not conf.outlet_webhook.enabled:
        return
    where = place(conf, "allowed_networks", outlet_webhook.GROUP)
    for network in outlet_webhook.parsed_networks(conf.outlet_webhook.allowed_networks):
        consequence = _consequence(network)
        if consequence:
            yield f"{where}: {network}: {consequence}; name only the networks of the receivers."


def _consequence(network: Network) -> str:
    """What follows from an allowed network that is too large; empty: nothing."""
    if not network.prefixlen:
        return "subscribers can have the outlet connect to every address"
    reachable = (why for dangerous, why in _DANGEROUS_NETWORKS if network.overlaps(dangerous))
    return next(reachable, "")


def _callbacks_without_tls(conf: cfg.ConfigOpts) -> Iterator[str]:
    if conf.outlet_webhook.enabled and conf.outlet_webhook.allow_http:
        where = place(conf, "allow_http", outlet_webhook.GROUP)
        yield f"{where}: deliveries to http:// callbacks cross the network without TLS; remove the option."


def _accounts(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Accounts of Keystone in use: ours of the API, and those of the reconcilers."""
    in_use = {keystone.GROUP: conf.api.auth_strategy == "keystone", reconcile_nova.GROUP: conf.reconcile_nova.enabled}
    for section in conf.list_all_sections():
        if in_use.get(section, section.startswith("reconciler_")):
            yield from _account(conf, section)


def _account(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    # Imported here: most configurations have no account.
    from keystoneauth1 import exceptions, loading

    names = [cfg.StrOpt(name) for name in ("cloud", "auth_type", "auth_section")]
    private = read_privately(conf)
    private.register_opts([*names, cfg.BoolOpt("insecure", default=False)], group=section)
    if cloud := private[section].cloud:
        for finding in _insecure_cloud(cloud):
            yield f"{place(private, 'cloud', section)}: {finding}"
        return
    if private[section].insecure:
        yield f"{place(private, 'insecure', section)}: {_UNVERIFIED}"
    section = private[section].auth_section or section
    private.register_opts(names, group=section)
    auth_type = private[section].auth_type
    if auth_type == "none":
        return  # it sends no credentials
    try:
        options = loading.get_auth_plugin_conf_options(auth_type or "password")
    except exceptions.NoMatchingPlugin:
        return  # the process does not start
    found = [option for option in options if _ACCOUNT_URLS.search(option.dest)]
    # Without "required": what is missing is not insecure, and other checks report it.
    optional = [cfg.StrOpt(each.name, dest=each.dest, deprecated_opts=each.deprecated_opts) for each in found]
    private.register_opts(optional, group=section)
    for option in optional:
        url = private[section][option.dest]
        if url and _is_remote_http(url):
            yield f"{place(private, option.dest, section)}: {_PLAIN}"


def _insecure_cloud(cloud: str) -> Iterator[str]:
    """Findings about a cloud of clouds.yaml; none if the library cannot read it, which other checks report."""
    # Imported here: the import is slow.
    from openstack import exceptions
    from openstack.config import OpenStackConfig

    try:
        found = OpenStackConfig(load_envvars=False).get_one(cloud=cloud)
    except (exceptions.SDKException, TypeError):
        return
    if found.get_requests_verify_args()[0] is False:
        yield f"verify of {cloud} in clouds.yaml: {_UNVERIFIED}"
    for name, url in sorted({**found.config, **found.config["auth"]}.items()):
        if _ACCOUNT_URLS.search(name) and isinstance(url, str) and _is_remote_http(url):
            yield f"{name} of {cloud} in clouds.yaml: {_PLAIN}"


def _database(conf: cfg.ConfigOpts) -> Iterator[str]:
    try:
        url = url_of(conf)
    except sa_exc.ArgumentError:
        return  # the check of the database reports it
    query = {k: v if isinstance(v, str) else v[-1] for k, v in url.query.items()}
    hosts = [host for value in (url.host, query.get("host")) if value for host in value.split(",")]
    if all(is_local(host) for host in hosts):
        return
    where = place(conf, "connection", "database")
    if url.get_backend_name() == "postgresql" and query.get("sslmode") not in ("verify-ca", "verify-full"):
        yield (
            f"{where}: the connection to {hosts[0]} does not verify the server; add sslmode=verify-full and "
            "sslrootcert=FILE to the URL."
        )
    elif url.get_backend_name() in ("mysql", "mariadb") and not ({"ssl_ca", "ssl_capath"} & query.keys()):
        yield f"{where}: the connection to {hosts[0]} has no verified TLS; add ssl_ca=FILE to the URL."


def _rabbit(conf: cfg.ConfigOpts, group: str, given: str | None) -> Iterator[str]:
    if (given or "").partition("://")[0] not in RABBIT_SCHEMES:
        return
    try:
        broker = read_broker(group, given, conf, strict=False)
    except ConfigError:
        return  # the check of the sources reports it
    remote = [host.name for host in broker.hosts if not is_local(host.name)]
    if not remote:
        return
    where = place(conf, "transport_url", group)
    if not broker.options["ssl"]:
        yield (
            f"{where}: messages and the password for {remote[0]} cross the network without TLS; set ssl = true and "
            f"ssl_ca_file in [{GROUP}]."
        )
    elif not broker.options["ssl_ca_file"]:
        yield f"{where}: the certificate of {remote[0]} is not verified; set ssl_ca_file in [{GROUP}]."


def _nats(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    try:
        settings = NatsClientSettings(section, conf[section])
    except ConfigError:
        return  # the check of the sources or that of the outlets reports it
    remote = [server.hostname for server in settings.servers if not is_local(server.hostname or "")]
    if remote and not settings.tls:
        where = place(conf, "servers", section)
        yield (
            f"{where}: messages and credentials for {remote[0]} cross the network without TLS; use tls:// in the URL "
            "and set tls_ca_file."
        )


def _kafka(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    group = conf[section]
    hosts = [_host(server.rpartition("://")[2]) for server in group.servers]
    remote = [host for host in hosts if host and not is_local(host)]
    if not remote:
        return
    properties = {name: value.lower() for name, value in group.properties.items()}
    if properties.get("security.protocol") not in ("ssl", "sasl_ssl"):
        where = place(conf, "servers", section)
        yield (
            f"{where}: messages and credentials for {remote[0]} cross the network without TLS; set "
            "security.protocol:SASL_SSL in properties."
        )
    for name, verified in _KAFKA_VERIFIES.items():
        if properties.get(name, verified) != verified:
            where = place(conf, "properties", section)
            yield f"{where}: {name} lets another server stand in for {remote[0]}; remove it."


def _region(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    group = conf[section]
    for option in ("endpoint", "auth_url"):
        if _is_remote_http(group[option] or ""):
            yield f"{place(conf, option, section)}: tokens or passwords cross the network without TLS; use https://."
    endpoint = urllib.parse.urlsplit(group.endpoint or "")
    host = _host(group.address or endpoint.netloc)
    has_tls = endpoint.scheme == "https" if group.stream_tls is None else group.stream_tls
    if host and not has_tls and not is_local(host):
        decides = next(option for option in ("stream_tls", "address", "endpoint") if group[option] is not None)
        where = place(conf, decides, section)
        yield f"{where}: tokens and changes for {host} cross the network without TLS; set stream_tls = true."


def _host(address: str) -> str:
    """The host of ``host``, ``host:port`` or ``[host]:port``; empty: it has none."""
    try:
        return urllib.parse.urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""


def _kubernetes(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    group = conf[section]
    if group.in_cluster:
        return
    try:
        cluster = read_kubeconfig(group.kubeconfig, group.context).cluster
    except KubeconfigError:
        return  # the check of the sources reports it
    where = f"{place(conf, 'kubeconfig', section)}: {cluster.path}"
    if cluster.values.insecure_skip_tls_verify:
        yield (
            f"{where}: insecure-skip-tls-verify of {cluster.name!r} disables the verification of the API server; "
            "remove it, and set certificate-authority-data."
        )
    if _is_remote_http(cluster.values.server or ""):
        yield f"{where}: the server of {cluster.name!r} has no TLS, so tokens are readable; use its https address."


def is_local(host: str) -> bool:
    """Whether a host, or the path of a socket, is on this machine."""
    return host.startswith(("/", "@")) or is_loopback(host)


def _is_remote_http(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "http" and not is_local(parts.hostname or "")
