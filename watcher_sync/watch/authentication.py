# SPDX-License-Identifier: Apache-2.0
"""Checks tokens: what every strategy answers, and the claims of signed JWTs (RFC 7519).

The strategies that need the policy of the API are built by the assembly. Used by a pool of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import jwt
import msgspec

from watcher_sync.exceptions import ConfigError
from watcher_sync.model.watch.resources import Reader

EXPIRY_GRACE_SECONDS: Final = 30.0
"""How long a stream outlasts its token: the next token may be under way."""

_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
ALGORITHMS: Final = (*_ASYMMETRIC, *_SYMMETRIC)
_MIN_SECRET_BYTES: Final = 32


class InvalidToken(Exception):
    """The token is bad or expired; the message says why, without the token."""


class AuthenticationUnavailable(Exception):
    """The token could not be checked now."""


class Caller(msgspec.Struct, frozen=True, eq=False):
    """Who a token belongs to, and what the policy allows."""

    user_id: str
    project_id: str | None
    reader: Reader
    """What it sees of the model."""
    may_subscribe: bool
    """Whether it may watch topics of its own project."""
    may_watch: Callable[[str | None], bool]
    """Whether it may watch a topic of this project; None: of none. It may read files."""
    expires_at: float | None = None
    """Seconds since the epoch; None: never."""

    @property
    def identity(self) -> Hashable:
        """The user in the project, for limits."""
        return (self.user_id, self.project_id)

    @property
    def rights(self) -> Hashable:
        """Equal for callers who see the same of every row."""
        return (self.reader.project_id, *sorted(self.reader.hidden))


class Authenticator(Protocol):
    """Checks tokens."""

    def authenticate(self, token: str) -> Caller:
        """Return the caller.

        :param token: the token; empty: there is none.
        :raises InvalidToken: the token is missing, bad or expired.
        :raises AuthenticationUnavailable: the token could not be checked now.
        """


class Claims(msgspec.Struct, frozen=True):
    """What a JWT says of its caller."""

    subject: str
    project_id: str | None
    roles: tuple[str, ...]
    system_scope: str | None
    expires_at: float


class JwtReader:
    """Reads signed JWTs. Immutable."""

    def __init__(
        self, keys: Sequence[str], algorithms: Sequence[str], *, issuer: str | None = None, audience: str | None = None
    ) -> None:
        """:param keys: secrets, or public keys in PEM: a token may be signed with any of them.

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
        if symmetric == {True} and any(len(key.encode()) < _MIN_SECRET_BYTES for key in keys):
            raise ConfigError(f"jwt_key_files: a secret needs {_MIN_SECRET_BYTES} bytes")
        self._keys = [_prepared(key, algorithms) for key in keys]
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


def read_keys(paths: Sequence[str]) -> list[str]:
    """The content of key files.

    :raises ConfigError: a file cannot be read.
    """
    found: list[str] = []
    for path in paths:
        try:
            found.append(Path(path).read_text().strip())
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"jwt_key_files: {path}: {exc}") from None
    return found


def _prepared(key: str, algorithms: Sequence[str]) -> tuple[Any, list[str]]:
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
        raise ConfigError(f"jwt_key_files: a file has no key for {', '.join(algorithms)}")
    return prepared, fitting


def _claims(claims: dict[str, Any]) -> Claims:
    """:raises InvalidToken: a claim has the wrong type."""
    project, roles, scope = claims.get("project_id"), claims.get("roles", []), claims.get("system_scope")
    if not isinstance(project, str | None) or not isinstance(scope, str | None) or not isinstance(roles, list):
        raise InvalidToken("a claim of the token has the wrong type")
    if not all(isinstance(role, str) for role in roles):
        raise InvalidToken("a claim of the token has the wrong type")
    return Claims(str(claims["sub"]), project or None, tuple(roles), scope, float(claims["exp"]))
