# SPDX-License-Identifier: Apache-2.0
"""Finds settings that let others read or change what only this service should: access and transports.

Each finding is one line: the option with its file, what follows from it, and the remedy. A transport to this machine
needs no TLS. Nothing here connects.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from oslo_config import cfg
from sqlalchemy import exc as sa_exc

from watcher_sync.conf import keystone, opts, outlet_watch, outlet_webhook, reconcile_nova
from watcher_sync.conf.drivers import gather_declared
from watcher_sync.conf.findings import is_local, is_remote_http
from watcher_sync.conf.findings import place as place
from watcher_sync.conf.networks import Network, is_loopback
from watcher_sync.conf.private import read_privately
from watcher_sync.handlers.dcm.handler import DcmHandler
from watcher_sync.storage.database.database import url_of

RABBIT_SCHEMES = ("rabbit", "amqp", "kombu+rabbit", "kombu+amqp")
"""Of a transport_url whose broker is RabbitMQ."""
_ACCOUNT_URLS = re.compile(r"url$|endpoint$|_endpoint_override$")
"""The names of options of an account, to whose URLs its password or its tokens go."""
_PLAIN = "passwords and tokens cross the network without TLS; use an https URL."
_UNVERIFIED = "the certificates of Keystone and its services are not verified; remove the option, and set cafile."

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
    for namespace, names in ((opts.SOURCES, conf.engine.enabled_sources), (opts.OUTLETS, conf.outlets.enabled)):
        found += gather_declared(
            conf, namespace, names, lambda driver, section: driver.insecure_transports(conf, section)
        )
    return found


def enabled_sources(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str | None]]:
    """(name, driver) of each enabled source, with the options of the driver registered if it is installed."""
    for name in dict.fromkeys(conf.engine.enabled_sources):
        opts.register_source(conf, name, [])
        driver = conf[f"source_{name}"].driver
        opts.register_source(conf, name, opts.plugin_options(opts.SOURCES, [driver]).get(driver, []))
        yield name, driver


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
        if url and is_remote_http(url):
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
        if _ACCOUNT_URLS.search(name) and isinstance(url, str) and is_remote_http(url):
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
