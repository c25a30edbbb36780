# SPDX-License-Identifier: Apache-2.0
"""Makes a manager with the credentials, the host and the certificates of a client of the REST API."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.client.errors import NotConfigured
from watcher_sync.client.transport import Transport
from watcher_sync.client.watch.connection import Tls, split_address
from watcher_sync.client.watch.manager import WatchManager
from watcher_sync.client.watch.tokens import REFRESH_INTERVAL_SECONDS

PORT = 8776
"""The port of the watch stream, unless the address names another."""

_NO_TOKEN = "none"  # the dialect requires a token; a service without authentication ignores it


_RENEWED_SECONDS: Final = 100.0
"""keystoneauth renews a token that has fewer seconds left, with a margin."""


def manager_of(
    transport: Transport, address: str | None, tls: bool | None, settings: Mapping[str, Any]
) -> WatchManager:
    """Makes the manager. The catch-up goes to the REST API.

    :param address: of the watch stream; None: the API's host and :data:`PORT`.
    :param tls: None: as the API.
    :param settings: further arguments of the manager.
    :raises ClientError: when there is no token, or the address is wrong.
    """
    root = urllib.parse.urlsplit(transport.root)
    host, port = split_address(address, PORT) if address is not None else (root.hostname or "", PORT)
    is_tls = root.scheme == "https" if tls is None else tls
    transport.token()  # wrong credentials are an error now, and not a reason to retry
    return WatchManager(
        host,
        port,
        transport.project_id(),
        lambda: transport.token() or _NO_TOKEN,
        **{
            "tls": _tls(transport) if is_tls else None,
            "harvester": transport.root,
            "token_refresh_interval": lambda: refresh_interval(transport.token_life()),
            **settings,
        },
    )


def refresh_interval(life: float | None) -> float:
    """The seconds until a token is replaced: while it is valid, and when keystoneauth gives a new one.

    keystoneauth returns the same token until it has less than 120 seconds left.

    :param life: seconds until the token expires; None: unknown.
    """
    if life is None:
        return REFRESH_INTERVAL_SECONDS
    return min(REFRESH_INTERVAL_SECONDS, max(life - _RENEWED_SECONDS, life / 2))


def _tls(transport: Transport) -> Tls:
    if transport.verify is False:
        raise NotConfigured("the watch stream cannot be used without a check of the certificate; name the authority")
    cert_file, key_file = transport.cert or (None, None)
    ca_file = transport.verify if isinstance(transport.verify, str) else None
    return Tls(ca_file=ca_file, cert_file=cert_file, key_file=key_file)
