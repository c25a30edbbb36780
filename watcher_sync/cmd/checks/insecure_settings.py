# SPDX-License-Identifier: Apache-2.0
"""Finds settings that let others read or change what only this service should: access and transports.

Each finding is one line: the option with its file, what follows from it, and the remedy. A transport to this machine
needs no TLS. Nothing here connects.
"""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg
from sqlalchemy import exc as sa_exc

from watcher_sync.conf import keystone
from watcher_sync.conf.drivers import gather_declared
from watcher_sync.conf.findings import is_local, place
from watcher_sync.conf.insecure_account import find_insecure_account
from watcher_sync.conf.networks import is_loopback
from watcher_sync.extension import gather
from watcher_sync.storage.database.database import url_of


def find_insecure_access(conf: cfg.ConfigOpts) -> list[str]:
    """Settings that let clients or providers do more than they should."""
    return [*_api(conf), *_monitoring(conf), *gather(lambda extension: extension.insecure_access(conf))]


def find_insecure_transports(conf: cfg.ConfigOpts) -> list[str]:
    """Connections to other machines without TLS, or without verification of the peer."""
    account = find_insecure_account(conf, keystone.GROUP) if conf.api.auth_strategy == "keystone" else ()
    drivers = gather_declared(conf, lambda driver, section: driver.insecure_transports(conf, section))
    return [*_database(conf), *account, *drivers, *gather(lambda extension: extension.insecure_transports(conf))]


def _api(conf: cfg.ConfigOpts) -> Iterator[str]:
    if conf.api.auth_strategy != "noauth":
        return
    where = place(conf, "auth_strategy", "api")
    yield f"{where}: with noauth every user of this machine may write everything; set auth_strategy = keystone."
    if conf.api.noauth_allow_remote:
        where = place(conf, "noauth_allow_remote", "api")
        yield f"{where}: with noauth every machine that reaches the port may write everything; remove the option."


def _monitoring(conf: cfg.ConfigOpts) -> Iterator[str]:
    if conf.monitoring.port and not is_loopback(conf.monitoring.host):
        where = place(conf, "host", "monitoring")
        yield (
            f"{where}: other machines can read health and metrics without authentication; set host = 127.0.0.1, or "
            "restrict the port with a firewall."
        )


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
