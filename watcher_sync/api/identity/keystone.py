# SPDX-License-Identifier: Apache-2.0
"""Checks tokens with keystonemiddleware, and answers 503 while Keystone is unavailable.

keystonemiddleware passes on a request without a valid token (``delay_auth_decision``), because some operations need
none. In this mode it treats every token as invalid while Keystone is unavailable, and a client that gets 401 discards a
good token. This module tells the two cases apart, and answers 503 with ``Retry-After``. An answer of a proxy in
front of Keystone, 404 or a page with 200, is an outage, too.

keystonemiddleware caches a valid token for ``[keystone_authtoken] token_cache_time`` seconds. A cached token needs no
Keystone, and a revoked one is accepted until then.

The import of this module is slow, because it imports keystonemiddleware.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.accounts import cause_of
from watcher_sync.api.http.problems import Problem, wsgi_answer
from watcher_sync.conf import keystone as options
from watcher_sync.exceptions import ConfigError

LOG = logging.getLogger(__name__)

Wsgi = Callable[..., Iterable[bytes]]

_RETRY_AFTER_SECONDS = 5


class KeystoneUnavailable(Exception):
    """Keystone could not be asked about a token."""


class KeystoneAuthentication:
    """WSGI middleware: the identity of a token becomes headers of the request."""

    def __init__(self, application: Wsgi, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: a value of ``[keystone_authtoken]`` is unusable."""
        options.register_opts(conf)
        settings: dict[str, Any] = {"oslo_config_config": conf, "delay_auth_decision": True}
        settings["www_authenticate_uri"] = _identity_uri(conf)
        try:
            self._protocol = _Protocol(application, settings)
        except (auth_token.ConfigurationError, ksa_exceptions.ClientException) as exc:
            raise ConfigError(f"[{options.GROUP}] {exc}") from None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, [(name, _without_host(name, value)) for name, value in headers], *exc_info)

        try:
            answer: Iterable[bytes] = self._protocol(environ, start)
        except KeystoneUnavailable:
            problem = Problem(503, "Keystone is not available now", headers={"Retry-After": str(_RETRY_AFTER_SECONDS)})
            status, headers, body = wsgi_answer(problem)
            start_response(status, headers)
            return [body]
        return answer


def _without_host(name: str, value: str) -> str:
    """A header without the host that WebOb, below keystonemiddleware, writes into ``Location``: the client chose it."""
    if name.lower() != "location":
        return value
    return urllib.parse.urlunsplit(("", "", *urllib.parse.urlsplit(value)[2:]))


class _Protocol(auth_token.AuthProtocol):  # type: ignore[misc]
    """Raises :class:`KeystoneUnavailable` instead of treating the token as invalid."""

    def fetch_token(self, token: str, **kwargs: Any) -> Any:
        """Return the data of a token, from the cache or from Keystone."""
        try:
            return super().fetch_token(token, **kwargs)
        except auth_token.InvalidToken as exc:
            # Keystone refused the token, or the library turned a failure into this exception.
            if _is_outage(exc.__context__):
                raise KeystoneUnavailable from exc
            raise
        except Exception as exc:  # the libraries raise anything for an answer 200 that is no token
            LOG.warning("Keystone unavailable: %s", cause_of(exc) or type(exc).__name__)
            raise KeystoneUnavailable from exc


def _is_outage(cause: BaseException | None) -> bool:
    if isinstance(cause, ksa_exceptions.NotFound):
        return not _is_of_keystone(cause.response)
    return isinstance(cause, auth_token.ServiceError | ksa_exceptions.ClientException)


def _is_of_keystone(response: Any) -> bool:
    """Whether Keystone itself made an error, and not a proxy whose Keystone is away."""
    try:
        return "code" in response.json()["error"]
    except (ValueError, LookupError, TypeError):
        return False


def _identity_uri(conf: cfg.ConfigOpts) -> str:
    """The address of Keystone in a 401 answer. Without it, the middleware would ask Keystone for it at every 401."""
    if uri := conf[options.GROUP].www_authenticate_uri:
        return str(uri)
    LOG.warning("[keystone_authtoken] www_authenticate_uri is not set: a 401 answer does not name Keystone's address")
    return "/"
