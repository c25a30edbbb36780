# SPDX-License-Identifier: Apache-2.0
"""Authentication as WSGI middleware: tokens of Keystone, or requests from the loopback interface only.

Without authentication (``auth_strategy = noauth``) the API refuses a request with 403, unless

* it comes from the loopback interface,
* its ``Host`` header names a loopback host,
* its ``Origin`` header, if a browser sent one, names the same host.

So neither another machine nor a web page that a local user visits can use the API.
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
    """Wraps the application in the configured authentication."""
    if conf.api.auth_strategy == "keystone":
        return _keystone(application, conf)
    return application if conf.api.noauth_allow_remote else LoopbackOnly(application)


def _keystone(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    # Imported here: the import is slow, and an API without Keystone does not need it.
    from keystonemiddleware import auth_token

    settings: dict[str, Any] = {"oslo_config_config": conf, "delay_auth_decision": True}
    settings["www_authenticate_uri"] = _identity_uri(conf, auth_token.AUTH_TOKEN_OPTS)
    protected: Wsgi = auth_token.AuthProtocol(application, settings)
    return protected


def _identity_uri(conf: cfg.ConfigOpts, options: Iterable[tuple[str, list[cfg.Opt]]]) -> str:
    """The address of Keystone in a 401 answer. Without it, the middleware would ask Keystone for it at every 401."""
    for group, opts in options:
        conf.register_opts(opts, group=group)
    group = conf.keystone_authtoken
    for name in ("www_authenticate_uri", "auth_uri"):
        if uri := getattr(group, name, None):
            return str(uri)
    LOG.warning("[keystone_authtoken] www_authenticate_uri is not set: a 401 answer does not name Keystone's address")
    return "/"


def is_loopback(host: str) -> bool:
    """Whether a host name or an address belongs to the loopback interface."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class LoopbackOnly:
    """Refuses every request from another machine, or for another host, with 403."""

    def __init__(self, application: Wsgi) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        reason = _refusal_reason(environ)
        if reason is None:
            return self._application(environ, start_response)
        problem = Problem(403, f"{reason}; without authentication the API serves this machine only")
        status, headers, body = wsgi_answer(problem)
        start_response(status, headers)
        return [body]


def _refusal_reason(environ: dict[str, Any]) -> str | None:
    """Why the request is refused; None: it is local."""
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
