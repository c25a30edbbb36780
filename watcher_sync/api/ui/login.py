# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/login``: a token of Keystone for the name and the password of a user.

A page cannot ask Keystone itself, because a browser needs the permission of Keystone for that (CORS). So the API asks
Keystone, and stores neither the password nor the token. The answer is the same for an unknown user, a wrong password
and a scope without a role.

The failed logins of a client address have a limit, and so have the bodies that it sends at one time. Both are checked
before the body is read. A login is one of :data:`MAX_CONCURRENT` only while Keystone is asked, so a slow body takes no
other login's turn.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import falcon

from watcher_sync.api.edge.rate_limits import TokenBuckets, client_of
from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.envelope import note_actor
from watcher_sync.api.http.operation import JSON, Answer, Call, Responder, Rule, operation
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.api.identity.login import Credentials, KeystoneAddress, KeystoneFailed, LoginRefused
from watcher_sync.api.service import Service

MAX_BODY_BYTES: Final = 65_536
"""All fields at their maximum length, each character escaped, have less."""
MAX_CONCURRENT: Final = 8
"""Logins that ask Keystone at one time in one worker process. Each occupies a thread until the answer comes."""
MAX_BODIES: Final = 16
"""Logins whose bodies one worker process reads at one time. Each occupies a thread until its body has come."""
MAX_BODIES_OF_ADDRESS: Final = 8
"""Those of one client address."""

_REFUSED: Final = "The user, the password or the project is wrong, or the user has no role there"
"""For every refusal of Keystone, so that the answer does not say whether a user exists."""

_DOMAIN: Final = "Default"
_RETRY_AFTER_SECONDS: Final = 5

_NAME: Final[schemas.Schema] = {"type": "string", "minLength": 1, "maxLength": 255}
_LOGIN: Final[schemas.Schema] = {
    "type": "object",
    "required": ["user", "password"],
    "additionalProperties": False,
    "properties": {
        "user": _NAME | {"description": "The name of the user."},
        # A text above the maximum is too long for the problem to repeat it.
        "password": {"type": "string", "minLength": 1, "maxLength": 4096},
        "user_domain": _NAME | {"default": _DOMAIN, "description": "The name of the user's domain."},
        "project": _NAME | {"description": "The name of the project of the token."},
        "project_domain": _NAME | {"description": "The name of the project's domain; the user's by default."},
        "system": {"type": "boolean", "default": False, "description": "A token of the system, without a project."},
    },
}

_NAMED: Final[schemas.Schema] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": schemas.STRING, "name": schemas.nullable(schemas.STRING)},
}
_TOKEN: Final[schemas.Schema] = {
    "type": "object",
    "required": ["token", "expires_at", "user", "project", "system", "roles"],
    "properties": {
        "token": schemas.STRING | {"description": "For the header X-Auth-Token."},
        "expires_at": schemas.TIME,
        "user": _NAMED,
        "project": schemas.nullable(_NAMED) | {"description": "null: the token is of the system."},
        "system": {"type": "boolean"},
        "roles": {"type": "array", "items": schemas.STRING},
    },
}


class LoginLimits:
    """Limits the failed logins and the slow bodies of each client address, and the logins. Used by all threads."""

    def __init__(self, failures: TokenBuckets) -> None:
        self._failures = failures
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT)
        # Guards the bodies.
        self._lock = threading.Lock()
        self._bodies: collections.Counter[str] = collections.Counter()
        """Client address -> its logins whose bodies are being read."""

    @contextlib.contextmanager
    def attempt(self, client: str) -> Iterator[Callable[[], None]]:
        """Counts the login as failed if it ends with 401.

        :returns: what to call when the body is read; further calls do nothing.
        :raises Problem: 429 or 503 when there is no further login now.
        """
        identity = ("address", client)
        self._failures.charge(identity, "failed logins")
        is_failed = False
        try:
            with contextlib.ExitStack() as body:
                body.enter_context(self._body(client))
                yield body.close
        except Problem as problem:
            is_failed = problem.status == 401
            raise
        finally:
            if not is_failed:
                self._failures.give_back(identity)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Takes one of the logins that ask Keystone.

        :raises Problem: 503 when there is none.
        """
        if not self._slots.acquire(blocking=False):
            raise _too_many(503, "Too many logins at one time")
        try:
            yield
        finally:
            self._slots.release()

    @contextlib.contextmanager
    def _body(self, client: str) -> Iterator[None]:
        """:raises Problem: 429 when the address sends too many bodies, 503 when all addresses do."""
        with self._lock:
            if self._bodies[client] >= MAX_BODIES_OF_ADDRESS:
                raise _too_many(429, "Too many logins of one address at one time")
            if self._bodies.total() >= MAX_BODIES:
                raise _too_many(503, "Too many logins at one time")
            self._bodies[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._bodies[client] -= 1
                if not self._bodies[client]:
                    del self._bodies[client]


def _too_many(status: int, what: str) -> Problem:
    return Problem(status, f"{what}; retry later", headers={"Retry-After": "1"})


class LoginResource:
    """``/v1/login``."""

    def __init__(self, service: Service, keystone: KeystoneAddress | None) -> None:
        """:param keystone: where to ask; None: there is no login, and the answer is 404."""
        settings = service.conf.api
        self._keystone = keystone
        self._limits = LoginLimits(TokenBuckets(settings.login_failure_rate, settings.login_failure_burst))
        declared = operation(
            summary="Log in with user and password",
            description="Gives a token of Keystone for a project or for the system.",
            rule=Rule("login:create", EVERYBODY),
            body=Body({JSON: _LOGIN}, max_bytes=MAX_BODY_BYTES),
            responses={200: Answer(_TOKEN, "The token")},
            errors=(401, 404),
            tag="login",
        )(self.log_in)
        self.on_post = self._limited(declared)

    def log_in(self, call: Call) -> None:
        """Answers with the token.

        :raises Problem: 401 when Keystone refuses, 503 when it is unavailable.
        """
        call.request.context.end_of_body()
        keystone = self._required()
        credentials = _credentials(call.body)
        try:
            with self._limits.turn():
                found = keystone.log_in(credentials)
        except LoginRefused:
            raise Problem(401, _REFUSED) from None
        except KeystoneFailed:
            headers = {"Retry-After": str(_RETRY_AFTER_SECONDS)}
            raise Problem(503, "Keystone is not available now", headers=headers) from None
        note_actor(call.request.env, found.user_id, found.project_id)
        project = None if found.project_id is None else {"id": found.project_id, "name": found.project}
        call.answer(
            {
                "token": found.token,
                "expires_at": found.expires_at,
                "user": {"id": found.user_id, "name": found.user},
                "project": project,
                "system": credentials.project is None,
                "roles": found.roles,
            }
        )

    def _required(self) -> KeystoneAddress:
        """:raises Problem: 404 when there is no login."""
        if self._keystone is None:
            raise Problem(404, "The API offers no login; send a token")
        return self._keystone

    def _limited(self, responder: Responder) -> Callable[..., None]:
        """Checks the limits before the operation reads the body."""

        @functools.wraps(responder)
        def limited(request: falcon.Request, response: falcon.Response, **params: Any) -> None:
            with self._limits.attempt(client_of(request.env)) as end_of_body:
                request.context.end_of_body = end_of_body
                responder(request, response, **params)

        return limited


def _credentials(body: dict[str, Any]) -> Credentials:
    """:raises Problem: 400 when the body names no scope, or two."""
    is_system = body.get("system", False)
    if is_system and "project" in body:
        raise bad_request("body", "/project", "project and system exclude each other")
    if not is_system and "project" not in body:
        raise bad_request("body", "/project", "project is missing, and system is not true")
    domain = body.get("user_domain", _DOMAIN)
    return Credentials(
        user=body["user"],
        password=body["password"],
        user_domain=domain,
        project=body.get("project"),
        project_domain=body.get("project_domain", domain),
    )
