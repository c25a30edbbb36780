# SPDX-License-Identifier: Apache-2.0
"""Authentication, as WSGI middleware: tokens of Keystone, or nobody but this machine.

Without authentication (``auth_strategy = noauth``) a request must come from the loopback interface, name
a loopback host and, where a browser sent it, come from a page of the same host: so neither another machine
nor a web page that a local user happens to visit can use the API.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.api.core.problems import Problem, wsgi_answer

LOG = logging.getLogger(__name__)

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """The application behind the configured authentication."""
    if conf.api.auth_strategy == "keystone":
        return _keystone(application, conf)
    return application if conf.api.noauth_allow_remote else LoopbackOnly(application)


def _keystone(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    # Imported here: without Keystone nothing of it is needed, and it is not small.
    from keystonemiddleware import auth_token

    settings: dict[str, Any] = {"oslo_config_config": conf, "delay_auth_decision": True}
    settings["www_authenticate_uri"] = _identity_uri(conf, auth_token.AUTH_TOKEN_OPTS)
    protected: Wsgi = auth_token.AuthProtocol(application, settings)
    return protected


def _identity_uri(conf: cfg.ConfigOpts, options: Iterable[tuple[str, list[cfg.Opt]]]) -> str:
    """Where a caller without a token is sent. The middleware would ask Keystone for it at every 401."""
    for group, opts in options:
        conf.register_opts(opts, group=group)
    group = conf.keystone_authtoken
    for name in ("www_authenticate_uri", "auth_uri"):
        if uri := getattr(group, name, None):
            return str(uri)
    LOG.warning("[keystone_authtoken] www_authenticate_uri is not set: callers are not told where to get a token")
    return "/"


def is_loopback(host: str) -> bool:
    """Whether a host name or an address is this machine's own and nobody else's."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class LoopbackOnly:
    """Refuses everybody who is not on this machine."""

    def __init__(self, application: Wsgi) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        reason = _stranger(environ)
        if reason is None:
            return self._application(environ, start_response)
        problem = Problem(403, f"{reason}; without authentication the API serves this machine only")
        status, headers, body = wsgi_answer(problem)
        start_response(status, headers)
        return [body]


def _stranger(environ: dict[str, Any]) -> str | None:
    address = environ.get("REMOTE_ADDR", "")  # empty on a Unix socket
    if address and not is_loopback(address):
        return f"The request comes from {address}"
    host = urllib.parse.urlsplit("//" + environ.get("HTTP_HOST", "localhost")).hostname or ""
    if not is_loopback(host):
        return "The request names another host"
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and urllib.parse.urlsplit(origin).netloc != environ.get("HTTP_HOST"):
        return "The request comes from a page of another host"
    return None
