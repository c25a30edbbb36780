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

from watcher_sync.api.core.problems import Problem, wsgi_answer

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Wraps the application in the configured authentication."""
    if conf.api.auth_strategy == "keystone":
        # Imported here: the import is slow, and an API without Keystone does not need it.
        from watcher_sync.api.core.keystone import KeystoneAuthentication

        return KeystoneAuthentication(application, conf)
    return application if conf.api.noauth_allow_remote else LoopbackOnly(application)


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
