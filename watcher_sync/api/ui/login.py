# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/login``: a token of Keystone for the name and the password of a user.

A page cannot ask Keystone itself, because a browser needs the permission of Keystone for that (CORS). So the API asks
Keystone, and stores neither the password nor the token. The answer is the same for an unknown user, a wrong password
and a scope without a role.

The failed logins of a client address have a limit, and so have the logins that ask Keystone at one time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

from watcher_sync.api.edge.proxies import client_of
from watcher_sync.api.edge.rate_limits import TokenBuckets
from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.envelope import note_actor
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.api.identity.login import Credentials, KeystoneAddress, KeystoneFailed, LoginRefused
from watcher_sync.api.service import Service

MAX_BODY_BYTES: Final = 65_536
"""All fields at their maximum length, each character escaped, have less."""
MAX_CONCURRENT: Final = 8
"""Logins that ask Keystone at one time in one worker process. Each occupies a thread until the answer comes."""

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
    "required": ["token", "expires_at", "user", "project", "system", "roles", "projects"],
    "properties": {
        "token": schemas.STRING | {"description": "For the header X-Auth-Token."},
        "expires_at": schemas.TIME,
        "user": _NAMED,
        "project": schemas.nullable(_NAMED) | {"description": "null: the token is of the system."},
        "system": {"type": "boolean"},
        "roles": {"type": "array", "items": schemas.STRING},
        "projects": {
            "type": "object",
            "additionalProperties": schemas.STRING,
            "description": "id -> name of the projects that Keystone lists for the user: all for an administrator.",
        },
    },
}


class LoginResource:
    """``/v1/login``."""

    def __init__(self, service: Service, keystone: KeystoneAddress | None) -> None:
        """:param keystone: where to ask; None: there is no login, and the answer is 404."""
        settings = service.conf.api
        self._keystone = keystone
        self._failures = TokenBuckets(settings.login_failure_rate, settings.login_failure_burst)
        self._turns = threading.BoundedSemaphore(MAX_CONCURRENT)
        self.on_post = operation(
            summary="Log in with user and password",
            description="Gives a token of Keystone for a project or for the system.",
            rule=Rule("login:create", EVERYBODY, reason="a caller has no token before the login"),
            body=Body({JSON: _LOGIN}, max_bytes=MAX_BODY_BYTES),
            responses={200: Answer(_TOKEN, "The token")},
            errors=(401, 404),
            tag="login",
        )(self.log_in)

    def log_in(self, call: Call) -> None:
        """Answers with the token.

        :raises Problem: 401 when Keystone refuses, 429 when the address had too many failures, 503 when Keystone is
            unavailable or asked too often.
        """
        keystone = self._required()
        credentials = _credentials(call.body)
        try:
            with self._attempt(client_of(call.request.env)):
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
                "projects": found.projects,
            }
        )

    def _required(self) -> KeystoneAddress:
        """:raises Problem: 404 when there is no login."""
        if self._keystone is None:
            raise Problem(404, "The API offers no login; send a token")
        return self._keystone

    @contextlib.contextmanager
    def _attempt(self, client: str) -> Iterator[None]:
        """Takes one of the logins that ask Keystone, and counts those that Keystone refuses for the client address.

        :raises Problem: 429 or 503 when there is none.
        """
        identity = ("address", client)
        self._failures.charge(identity, "failed logins")
        is_refused = False
        try:
            if not self._turns.acquire(blocking=False):
                raise Problem(503, "Too many logins at one time; retry later", headers={"Retry-After": "1"})
            try:
                yield
            finally:
                self._turns.release()
        except LoginRefused:
            is_refused = True
            raise
        finally:
            if not is_refused:
                self._failures.give_back(identity)


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
