# SPDX-License-Identifier: Apache-2.0
"""Authentication as WSGI middleware: tokens of Keystone, or loopback only.

Without authentication (``noauth``) the API refuses a request with 403, unless

* it comes from the loopback interface, and no proxy sends it for another machine,
* its ``Host`` header names a loopback host, or one of ``[api] allowed_hosts``.

Always it refuses a request that

* names a host beyond ``[api] allowed_hosts``, if this option is set,
* has an ``Origin``, the page that makes a request in a browser, of another host that is not one of
  ``[api] allowed_origins``. Files of the page need none.

So a web page cannot use the API by a name of its own (DNS rebinding). Extensions may accept other credentials.
Exempt paths have no check.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from oslo_config import cfg

from watcher_sync.api.http.problems import Problem, wsgi_answer
from watcher_sync.conf.networks import is_loopback
from watcher_sync.extension import Wsgi, gather

_FORWARDING = ("HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_X_CLIENT_IP")
_PORTS = {"http": "80", "https": "443"}
_PUBLIC_FILES = "/static/"

Exempt = Mapping[str, Callable[[Wsgi, cfg.ConfigOpts], Wsgi]]
"""Path -> what makes the application that answers it from the one that needs authentication."""


def wrap(application: Wsgi, conf: cfg.ConfigOpts, exempt: Exempt) -> Wsgi:
    """Wraps the application in the configured authentication.

    :param exempt: the paths that anybody may ask for.
    :raises ConfigError: the configuration cannot work.
    """
    is_open = conf.api.auth_strategy == "keystone" or conf.api.noauth_allow_remote
    unchecked = application
    if conf.api.auth_strategy == "keystone":
        # Imported here: the import is slow, and an API without Keystone does not need it.
        from watcher_sync.api.identity.keystone import KeystoneAuthentication

        application = KeystoneAuthentication(application, conf)
    for wrapped in gather(lambda extension: extension.authentication(conf)):
        application = wrapped(unchecked, application)
    trusted = TrustedRequests(
        application, local_only=not is_open, hosts=conf.api.allowed_hosts, origins=conf.api.allowed_origins
    )
    for path, make in exempt.items():
        trusted.exempt(path, make(trusted.checked, conf))
    return trusted


class TrustedRequests:
    """Refuses requests of other web pages, for other hosts, and, without authentication, of other machines."""

    def __init__(
        self, application: Wsgi, *, local_only: bool, hosts: Iterable[str] = (), origins: Iterable[str] = ()
    ) -> None:
        """:param local_only: refuse requests of other machines.

        :param hosts: the allowed hosts; none: all, or with ``local_only`` those of the loopback interface.
        :param origins: allowed origins of other hosts.
        """
        self._application = application
        self._local_only = local_only
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._exempt: dict[str, Wsgi] = {}

    def exempt(self, path: str, application: Wsgi) -> None:
        """Have another application answer a path, without any check of the request."""
        self._exempt[path] = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        answer: Wsgi = self._exempt.get(environ.get("PATH_INFO", "")) or self.checked
        return answer(environ, start_response)

    def checked(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI, for the paths that are not exempt."""
        reason = self._local_refusal(environ) if self._local_only else None
        reason = reason or self._refusal(environ)
        if reason is None:
            return self._application(environ, start_response)
        status, headers, body = wsgi_answer(Problem(403, reason))
        start_response(status, headers)
        return [body]

    def _local_refusal(self, environ: dict[str, Any]) -> str | None:
        """Why the request is not one of this machine; None: it is."""
        only = "without authentication the API serves this machine only"
        address = environ.get("REMOTE_ADDR", "")  # empty on a Unix socket
        if address and not is_loopback(address):
            return f"The request comes from {address}; {only}"
        if is_forwarded_stranger(environ):
            return f"A proxy sends the request for another machine; {only}"
        host = host_of(environ)
        if host not in self._hosts and not is_loopback(host):
            return f"The request names another host; {only}"
        return None

    def _refusal(self, environ: dict[str, Any]) -> str | None:
        host = host_of(environ)
        if self._hosts and host not in self._hosts and not (self._local_only and is_loopback(host)):
            return "The request names a host that [api] allowed_hosts does not have"
        # A browser sends an Origin for the modules of its own page, too, and a proxy may have changed the Host.
        if not environ.get("PATH_INFO", "").startswith(_PUBLIC_FILES) and is_foreign_origin(environ, self._origins):
            return (
                "The request comes from a page of another host, or a proxy changed its Host: let the proxy pass the "
                "Host on, or name the page in [api] allowed_origins"
            )
        return None


def host_of(environ: Mapping[str, Any]) -> str:
    """The host name of the ``Host`` header without the port; empty if the header is malformed."""
    try:
        return urllib.parse.urlsplit("//" + environ.get("HTTP_HOST", "localhost")).hostname or ""
    except ValueError:
        return ""


def is_foreign_origin(environ: Mapping[str, Any], allowed: frozenset[str]) -> bool:
    """Whether a page of another host makes the request.

    :param allowed: origins of other hosts that may, such as ``https://console.example.com``.
    """
    origin: str | None = environ.get("HTTP_ORIGIN")
    if origin is None or origin.lower() in allowed:
        return False
    try:
        page = urllib.parse.urlsplit(origin)
        host = urllib.parse.urlsplit(f"//{environ.get('HTTP_HOST', '')}")
        default = _PORTS.get(page.scheme)
        if default is None or not page.hostname or page.hostname != host.hostname:
            return True
        if page.scheme == "http" and environ.get("wsgi.url_scheme") == "https":
            return True  # an attacker in the network can make such a page
        return str(page.port or default) != str(host.port or default)
    except ValueError:
        return True


def is_forwarded_stranger(environ: Mapping[str, Any]) -> bool:
    """Whether a proxy sends the request for another machine, or does not say for which one."""
    is_forwarded = any(name in environ for name in (*_FORWARDING, "HTTP_FORWARDED", "HTTP_VIA"))
    addresses = list(_forwarded_for(environ))
    return is_forwarded and not (addresses and all(is_loopback(address) for address in addresses))


def _forwarded_for(environ: Mapping[str, Any]) -> Iterator[str]:
    for name in _FORWARDING:
        if name in environ:
            yield from (part.strip() for part in environ[name].split(","))
    for element in environ.get("HTTP_FORWARDED", "").replace(";", ",").split(","):
        key, _, value = element.strip().partition("=")
        if key.lower() == "for":
            node = value.strip('"')
            yield node.partition("]")[0] if node.startswith("[") else node.partition(":")[0]
