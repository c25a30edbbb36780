# SPDX-License-Identifier: Apache-2.0
"""The authentication of the watch stream, made from the configuration.

Each strategy ends in a context of the API's policy. So a caller has the same rights in a stream as in the REST API.
"""

from __future__ import annotations

import datetime
import functools
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_policy import policy
from oslo_utils import timeutils

from watcher_sync.api.http.request_context import ContextFactory, RequestContext
from watcher_sync.api.http.rules import PROJECT_READER, SCOPES, base_rules
from watcher_sync.api.identity.visibility import visibility
from watcher_sync.conf import keystone as keystone_options
from watcher_sync.extensions.watch.authentication import (
    AuthenticationUnavailable,
    Authenticator,
    Caller,
)
from watcher_sync.extensions.watch.bearer_tokens import InvalidToken, JwtReader, jwt_reader
from watcher_sync.extensions.watch.model.resources import Reader
from watcher_sync.extensions.watch.options import auth_strategy
from watcher_sync.model.kinds import Kinds

RULE = "watchtopics:events"
"""The rule of who may watch a topic: that of the REST catch-up."""

_PATH = "/central.events.v1.watch/subscribe"


def check(conf: cfg.ConfigOpts) -> None:
    """Check the options of the strategy. It contacts nothing.

    :raises ConfigError: one cannot work.
    """
    strategy = auth_strategy(conf)
    if strategy == "keystone":
        keystone_options.require_complete(conf)
    elif strategy == "jwt":
        jwt_reader(conf)


def make_authenticator(
    conf: cfg.ConfigOpts, kinds: Kinds, rules: list[policy.RuleDefault] | None = None
) -> Authenticator:
    """The authentication of ``[outlet_watch] auth_strategy``.

    :param rules: those of the API, which the files of the policy may name; None: those that decide about a stream.
    :raises ConfigError: an option cannot work.
    """
    strategy = auth_strategy(conf)
    callers = _Callers(conf, kinds, strategy, rules or _rules())
    if strategy == "keystone":
        return KeystoneTokens(conf, callers)
    if strategy == "jwt":
        return JwtTokens(jwt_reader(conf), callers)
    return NoTokens(callers)


class _Callers:
    """Makes callers of contexts."""

    def __init__(self, conf: cfg.ConfigOpts, kinds: Kinds, strategy: str, rules: list[policy.RuleDefault]) -> None:
        self.contexts = ContextFactory(conf, rules, strategy)
        self._kinds = kinds

    def make(self, context: RequestContext, expires_at: float | None) -> Caller:
        """The caller of a checked token."""
        sight = visibility(context, self._kinds)
        # Each decision reads the times of the policy files. The topics of a caller are mostly of its own project.
        may_watch = functools.cache(functools.partial(context.may_on, RULE))
        return Caller(
            user_id=context.user_id or "",
            project_id=context.project_id,
            reader=Reader(sight.project_id, sight.hidden),
            may_subscribe=may_watch(context.project_id),
            may_watch=may_watch,
            expires_at=expires_at,
        )


class NoTokens:
    """Every client is an administrator."""

    def __init__(self, callers: _Callers) -> None:
        self._caller = callers.make(callers.contexts.of_environ({}), None)

    def authenticate(self, token: str) -> Caller:
        """Return the caller; the token does not matter."""
        return self._caller


class JwtTokens:
    """Signed JSON Web Tokens. Their claims are sub, project_id, roles and system_scope."""

    def __init__(self, reader: JwtReader, callers: _Callers) -> None:
        self._reader = reader
        self._callers = callers

    def authenticate(self, token: str) -> Caller:
        """Return the caller.

        :raises InvalidToken: the token is missing, bad or expired.
        """
        if not token:
            raise InvalidToken("a token is needed")
        claims = self._reader.read(token)
        context = self._callers.contexts.of_claims(claims)
        return self._callers.make(context, claims.expires_at)


class KeystoneTokens:
    """Tokens of Keystone. keystonemiddleware checks and caches them, as it does for the API.

    It is WSGI middleware, so each check is a request that reaches no network.
    """

    def __init__(self, conf: cfg.ConfigOpts, callers: _Callers) -> None:
        """:raises ConfigError: a value of ``[keystone_authtoken]`` is unusable."""
        # Imported here: the import is slow, and other strategies do not need it.
        from watcher_sync.api.identity.keystone import KeystoneAuthentication

        self._callers = callers
        self._middleware = KeystoneAuthentication(_accept, conf)

    def authenticate(self, token: str) -> Caller:
        """Return the caller.

        :raises InvalidToken: the token is missing, bad or expired.
        :raises AuthenticationUnavailable: Keystone is unavailable.
        """
        if not token:
            raise InvalidToken("a token is needed")
        if not token.isascii() or not token.isprintable():
            raise InvalidToken("the token has an unusual character")
        accepted: list[dict[str, Any]] = []
        list(self._middleware(_environ(token, accepted), lambda *_: None))
        if not accepted:
            raise AuthenticationUnavailable
        context = self._callers.contexts.of_environ(accepted[0])
        if not context.known:
            raise InvalidToken("the token is not valid, or has expired")
        return self._callers.make(context, _expiry(accepted[0]))


def _rules() -> list[policy.RuleDefault]:
    """The rules that decide about a stream."""
    return [*base_rules(), policy.RuleDefault(RULE, PROJECT_READER, scope_types=SCOPES)]


def _accept(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The application behind the middleware: it notes what the middleware found."""
    environ["watcher_sync.accepted"].append(environ)
    start_response("204 No Content", [])
    return []


def _environ(token: str, accepted: list[dict[str, Any]]) -> dict[str, Any]:
    """A WSGI environment (PEP 3333) with a token."""
    return {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": _PATH,
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": "0",
        "HTTP_X_AUTH_TOKEN": token,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "watcher_sync.accepted": accepted,
    }


def _expiry(environ: Mapping[str, Any]) -> float | None:
    """When the token expires, in seconds since the epoch; None: Keystone does not say."""
    text = environ.get("keystone.token_info", {}).get("token", {}).get("expires_at")
    if not text:
        return None
    moment: datetime.datetime = timeutils.parse_isotime(text)
    return moment.timestamp()
