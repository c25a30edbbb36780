# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens (RFC 6750): on which paths they count, and signed JWTs (RFC 7519) with their claims.

Agents of the Axway dialect send no ``X-Auth-Token``. On their paths a Bearer token counts, too: that of Keystone, or a
JWT if the watch stream takes JWTs. The same token then belongs to the same caller by REST and in the stream, so that a
stream begins after what the catch-up served.

PyJWT is imported with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import jwt
from oslo_config import cfg

from watcher_sync.api.http.problems import Problem, wsgi_answer
from watcher_sync.api.http.request_context import CLAIMS, IDENTITY, Claims
from watcher_sync.conf import files
from watcher_sync.exceptions import ConfigError
from watcher_sync.extension import Wsgi
from watcher_sync.extensions.watch.options import GROUP, auth_strategy
from watcher_sync.extensions.watch.wire.topic_links import TEMPLATE, VERSIONS

EXPIRY_GRACE_SECONDS: Final = 30.0
"""How long a stream outlasts its token: the next token may be under way."""

_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
ALGORITHMS: Final = (*_ASYMMETRIC, *_SYMMETRIC)
_MIN_SECRET_BYTES: Final = 32
_BEARER: Final = "bearer"
_PATHS: Final = (
    "/apis",
    *(f"{prefix}{TEMPLATE.format(version=version)}" for prefix in ("", "/events") for version in VERSIONS),
)


class InvalidToken(Exception):
    """The token is bad or expired; the message says why, without the token."""


def token_of(environ: dict[str, Any]) -> str:
    """The Bearer token of a request on a path of agents; empty: there is none, or ``X-Auth-Token`` precedes it."""
    path = environ.get("PATH_INFO", "")
    if environ.get("HTTP_X_AUTH_TOKEN") or not any(path == each or path.startswith(f"{each}/") for each in _PATHS):
        return ""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def wrap(application: Wsgi, otherwise: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Have a request with a JWT belong to the caller of its claims, and one with a token of Keystone to its user.

    :param otherwise: checks the other requests, or lets them pass.
    :raises ConfigError: an option of the JWTs cannot work.
    """
    reader = jwt_reader(conf) if auth_strategy(conf) == "jwt" else None
    has_keystone = conf.api.auth_strategy == "keystone"

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        token = token_of(environ)
        if not token:
            return otherwise(environ, start_response)
        try:
            claims = None if reader is None else reader.read(token)
        except InvalidToken as exc:
            if not has_keystone:
                status, headers, body = wsgi_answer(Problem(401, f"A valid token is needed: {exc}"))
                start_response(status, headers)
                return [body]
            claims = None
        if claims is None:  # Keystone may know it
            environ["HTTP_X_AUTH_TOKEN"] = token
            return otherwise(environ, start_response)
        for name in [name for name in environ if name.startswith(IDENTITY)]:
            del environ[name]  # a client may have forged it
        environ[CLAIMS] = claims
        return application(environ, start_response)

    return wrapped


def jwt_reader(conf: cfg.ConfigOpts) -> JwtReader:
    """What reads the JWTs of ``[outlet_watch]``.

    :raises ConfigError: an option cannot work, or tokens of any issuer for any audience would be accepted.
    """
    group = conf[GROUP]
    issuer, audience = group.jwt_issuer or None, group.jwt_audience or None
    keys = read_keys(group.jwt_key_files)
    try:
        if issuer is None and audience is None and not group.jwt_accept_any:
            raise ConfigError(
                "jwt_issuer, jwt_audience: neither is set, so a token for another service would be accepted; "
                "set one of them, or jwt_accept_any = true"
            )
        return JwtReader(keys, group.jwt_algorithms, issuer=issuer, audience=audience)
    except ConfigError as exc:
        raise ConfigError(f"[{GROUP}] {exc}") from None


class JwtReader:
    """Reads signed JWTs. Immutable."""

    def __init__(
        self,
        keys: Mapping[str, str],
        algorithms: Sequence[str],
        *,
        issuer: str | None = None,
        audience: str | None = None,
    ) -> None:
        """:param keys: file -> its secret, or public key in PEM: a token may be signed with any of them.

        :raises ConfigError: the algorithms and the keys do not fit.
        """
        unknown = [name for name in algorithms if name not in ALGORITHMS]
        if unknown or not algorithms:
            raise ConfigError(f"jwt_algorithms: {', '.join(unknown) or 'empty'}; there are {', '.join(ALGORITHMS)}")
        symmetric = {name in _SYMMETRIC for name in algorithms}
        if len(symmetric) > 1:
            raise ConfigError("jwt_algorithms: algorithms with a secret and with a public key exclude each other")
        if not keys:
            raise ConfigError("jwt_key_files: not set; auth_strategy = jwt needs it")
        for path, key in keys.items():
            if symmetric == {True} and len(key.encode()) < _MIN_SECRET_BYTES:
                raise ConfigError(f"jwt_key_files: {path}: a secret needs {_MIN_SECRET_BYTES} bytes")
        self._keys = [_prepared(path, key, algorithms) for path, key in keys.items()]
        """(key, the algorithms that it is for) of each."""
        self._issuer = issuer
        self._audience = audience

    def read(self, token: str) -> Claims:
        """Check a token and return its claims.

        :raises InvalidToken: the token is bad or expired.
        """
        reason = "the token's signature is of no known key"
        for key, algorithms in self._keys:
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=algorithms,
                    issuer=self._issuer,
                    audience=self._audience,
                    leeway=EXPIRY_GRACE_SECONDS,
                    options={"require": ["exp", "sub"], "verify_aud": self._audience is not None},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
                continue
            except jwt.ExpiredSignatureError:
                raise InvalidToken("the token has expired") from None
            except jwt.InvalidTokenError as exc:
                raise InvalidToken(f"the token is not valid: {type(exc).__name__}") from None
            return _claims(claims)
        raise InvalidToken(reason)


def read_keys(paths: Sequence[str]) -> dict[str, str]:
    """Key file -> its content.

    :raises ConfigError: a file cannot be read.
    """
    return {path: files.read_text(GROUP, "jwt_key_files", path).strip() for path in paths}


def _prepared(path: str, key: str, algorithms: Sequence[str]) -> tuple[Any, list[str]]:
    """The key, parsed once, and the algorithms that it is for.

    :raises ConfigError: no algorithm can use the key.
    """
    prepared: Any = None
    fitting: list[str] = []
    for name in algorithms:
        try:
            prepared = jwt.get_algorithm_by_name(name).prepare_key(key)
        except (jwt.InvalidKeyError, NotImplementedError, ValueError, TypeError):
            continue
        fitting.append(name)
    if not fitting:
        raise ConfigError(f"jwt_key_files: {path}: it has no key for {', '.join(algorithms)}")
    return prepared, fitting


def _claims(claims: dict[str, Any]) -> Claims:
    """:raises InvalidToken: a claim has the wrong type."""
    project, roles, scope = claims.get("project_id"), claims.get("roles", []), claims.get("system_scope")
    if not isinstance(project, str | None) or not isinstance(scope, str | None) or not isinstance(roles, list):
        raise InvalidToken("a claim of the token has the wrong type")
    if not all(isinstance(role, str) for role in roles):
        raise InvalidToken("a claim of the token has the wrong type")
    return Claims(str(claims["sub"]), project or None, tuple(roles), scope, float(claims["exp"]))
