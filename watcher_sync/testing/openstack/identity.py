# SPDX-License-Identifier: Apache-2.0
"""Keystone v3: versions, tokens with their scope and expiry, the catalog, and projects.

Three users exist. The user ``admin`` has the role admin in the project ``admin`` and on the system. The user ``demo``
has the role member in the project ``demo``. The user ``auditor`` has a role in the project ``service``, which some of
Nova's rules name. All have the password ``secret`` and an application credential.
"""

from __future__ import annotations

import datetime
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Request, Response, json_response, not_found, unauthorized

REGION: Final = "RegionOne"
PASSWORD: Final = "secret"
DOMAIN: Final = {"id": "default", "name": "Default"}


class User(msgspec.Struct, frozen=True):
    """A user, with the one project that it has roles in and its application credential."""

    id: str
    name: str
    project_id: str
    project: str
    roles: tuple[str, ...]
    credential_id: str
    credential_secret: str

    @property
    def is_admin(self) -> bool:
        return "admin" in self.roles


USERS: Final = {
    user.name: user
    for user in (
        User("b7f51c0de4a94e0f8d3c2a6195e7d041", "admin", "0e9d8c7b6a5f4e3d8c2b1a0f9e8d7c6b", "admin",
             ("admin", "member", "reader"), "3f1e5d7c9b8a4f6e8d2c0b4a6f8e1d3c", "admin-credential-secret"),
        User("c2d90e1fa5b84f0a9e4d3b7206f8e152", "demo", "1f0e9d8c7b6a5f4e9d3c2b1a0f9e8d7c", "demo",
             ("member", "reader"), "4a2f6e8d0c9b5a7f9e3d1c5b7a9f2e4d", "demo-credential-secret"),
        User("d3ea1f20b6c9501baf5e4c8317a9f263", "auditor", "2a1f0e9d8c7b6f5eae4d2c1b0a9f8e7d", "service",
             ("auditor",), "5b3a7f9e1dac6b8aaf4e2d6c8ba03f5e", "auditor-credential-secret"),
    )
}  # fmt: skip


class Token(msgspec.Struct):
    """A token that was issued."""

    id: str
    user: User
    scope: str
    """``project``, ``system`` or empty."""
    methods: tuple[str, ...]
    issued_at: datetime.datetime
    expires_at: datetime.datetime
    revoked: bool = False


class Identity:
    """The service. Thread-safe."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        lifetime: float,
        endpoints: Callable[[], Mapping[str, str]],
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        """
        :param lifetime: seconds that a token is valid.
        :param endpoints: service type -> URL in the catalog.
        :param clock: the time, aware UTC.
        """
        self.lifetime = lifetime
        self._inventory = inventory
        self._endpoints = endpoints
        self._regions = {REGION: self}
        """Region -> the Keystone of the cloud that serves it, in the order of the catalog."""
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}

    def expire_tokens(self) -> None:
        """All tokens issued so far are invalid."""
        with self._lock:
            self._tokens.clear()

    def add_region(self, name: str, other: Identity, *, first: bool) -> None:
        """Name the services of another cloud in the catalog. They accept the tokens of this Keystone."""
        other._lock, other._tokens = self._lock, self._tokens
        regions = {**self._regions, name: other}
        self._regions = {name: other, **regions} if first else regions

    def authenticate(self, request: Request) -> Token:
        """The token of a request to any service. :raises ApiError: 401."""
        return self._find(request.headers.get("x-auth-token", ""))

    def serve(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if path == "":
            version = self._version(request)
            return json_response({"versions": {"values": [version]}}, status=300)
        if path == "/v3":
            return json_response({"version": self._version(request)})
        if path == "/v3/auth/tokens":
            return self._token_operation(request)
        token = self.authenticate(request)
        if path == "/v3/auth/catalog":
            return json_response({"catalog": self._catalog(), "links": {}})
        if path in ("/v3/projects", "/v3/auth/projects"):
            if path == "/v3/projects" and not token.user.is_admin:
                raise ApiError(403, "You are not authorized to perform the requested action: identity:list_projects.")
            name = request.last("name")
            projects = [project for project in self._projects() if name in (None, project["name"])]
            return json_response({"projects": projects, "links": {"next": None, "self": "", "previous": None}})
        if path.startswith("/v3/projects/"):
            for project in self._projects():
                if project["id"] == path.rpartition("/")[2]:
                    return json_response({"project": project})
            raise not_found(f"Could not find project: {path.rpartition('/')[2]}.")
        raise not_found("(http://docs.openstack.org/): The resource could not be found.")

    def _token_operation(self, request: Request) -> Response:
        if request.method == "POST":
            return self._issue(request)
        self.authenticate(request)
        try:
            token = self._find(request.headers.get("x-subject-token", ""))
        except ApiError:
            raise not_found("Could not find token.") from None
        if request.method == "DELETE":
            token.revoked = True
            return Response(204)
        return json_response(self._document(token), headers={"X-Subject-Token": token.id})

    def _issue(self, request: Request) -> Response:
        try:
            auth = msgspec.json.decode(request.body)["auth"]
            identity = auth["identity"]
            methods = tuple(identity["methods"])
            user = self._user(methods, identity)
        except (msgspec.DecodeError, KeyError, TypeError) as exc:
            raise ApiError(400, f"Expecting to find {exc} in auth.") from exc
        scope = self._scope(user, methods, auth.get("scope"))
        now = self._clock()
        expires_at = now + datetime.timedelta(seconds=self.lifetime)
        token = Token(f"fake-{secrets.token_urlsafe(24)}", user, scope, methods, now, expires_at)
        with self._lock:
            self._tokens[token.id] = token
        return json_response(self._document(token), status=201, headers={"X-Subject-Token": token.id})

    def _user(self, methods: tuple[str, ...], identity: Mapping[str, Any]) -> User:
        """:raises ApiError: 401 for wrong credentials."""
        if "password" in methods:
            given = identity["password"]["user"]
            for user in USERS.values():
                is_named = given.get("id") == user.id or (
                    given.get("name") == user.name and _is_default(given["domain"])
                )
                if is_named and given["password"] == PASSWORD:
                    return user
        elif "application_credential" in methods:
            given = identity["application_credential"]
            for user in USERS.values():
                is_named = given.get("id") == user.credential_id or (
                    given.get("name") == f"{user.name}-credential" and given["user"].get("name") == user.name
                )
                if is_named and given["secret"] == user.credential_secret:
                    return user
        elif "token" in methods:
            return self._find(identity["token"]["id"]).user
        raise unauthorized()

    @staticmethod
    def _scope(user: User, methods: tuple[str, ...], wanted: Any) -> str:
        """:raises ApiError: 401 for a scope in which the user has no role."""
        if "application_credential" in methods or wanted is None:
            return "project"  # of the credential, or the user's default project
        if wanted == "unscoped":
            return ""
        if "system" in wanted:
            if not user.is_admin:
                raise unauthorized()
            return "system"
        project = wanted.get("project", {})
        if project.get("id") == user.project_id:
            return "project"
        if project.get("name") == user.project and _is_default(project.get("domain", {})):
            return "project"
        raise unauthorized()

    def _find(self, token_id: str) -> Token:
        with self._lock:
            token = self._tokens.get(token_id)
        if token is None or token.revoked or token.expires_at <= self._clock():
            raise unauthorized()
        return token

    def _document(self, token: Token) -> dict[str, Any]:
        user = token.user
        document: dict[str, Any] = {
            "methods": list(token.methods),
            "user": {"domain": DOMAIN, "id": user.id, "name": user.name, "password_expires_at": None},
            "audit_ids": [token.id[-22:]],
            "expires_at": _isotime(token.expires_at),
            "issued_at": _isotime(token.issued_at),
        }
        if token.scope:
            document["roles"] = [{"id": f"role-{name}", "name": name} for name in user.roles]
            document["catalog"] = self._catalog()
        if token.scope == "project":
            document["project"] = {"domain": DOMAIN, "id": user.project_id, "name": user.project}
            document["is_domain"] = False
        elif token.scope == "system":
            document["system"] = {"all": True}
        return {"token": document}

    def _catalog(self) -> list[dict[str, Any]]:
        names = {"identity": "keystone", "compute": "nova", "placement": "placement"}
        of_regions = {region: identity._endpoints() for region, identity in self._regions.items()}
        return [
            {
                "id": f"service-{service}",
                "type": service,
                "name": name,
                "endpoints": [
                    {"id": f"{service}-{interface}-{region}", "interface": interface, "region_id": region,
                     "region": region, "url": endpoints[service]}
                    for region, endpoints in of_regions.items()
                    for interface in ("public", "internal", "admin")
                    if service in endpoints and (service != "identity" or region == REGION)
                ],
            }
            for service, name in names.items()
            if any(service in endpoints for endpoints in of_regions.values())
        ]  # fmt: skip

    def _projects(self) -> list[dict[str, Any]]:
        names = {user.project_id: user.project for user in USERS.values()}
        with self._inventory.lock:
            for server in self._inventory.servers.values():
                names.setdefault(server.project_id, server.project_id)
            names.update(self._inventory.projects)
        return [
            {"id": project_id, "name": name, "domain_id": DOMAIN["id"], "enabled": True, "is_domain": False,
             "description": "", "parent_id": DOMAIN["id"], "tags": [], "options": {}, "links": {}}
            for project_id, name in names.items()
        ]  # fmt: skip

    @staticmethod
    def _version(request: Request) -> dict[str, Any]:
        media_type = {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
        return {
            "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": f"{request.base}/v3/"}], "media-types": [media_type],
        }  # fmt: skip


def _is_default(domain: Mapping[str, str]) -> bool:
    return domain.get("id") == DOMAIN["id"] or domain.get("name", "").lower() == "default"


def _isotime(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
