# SPDX-License-Identifier: Apache-2.0
"""The fake cloud as tests hold it: an inventory in, faults in, counts out."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Self

import yaml

from watcher_sync.testing.http.faults import Fault, Faults
from watcher_sync.testing.http.listener import Listener
from watcher_sync.testing.openstack.compute import Compute
from watcher_sync.testing.openstack.faults import Action, Condition
from watcher_sync.testing.openstack.http import Endpoint, OpenStackRequests, Serve, ServiceHandler
from watcher_sync.testing.openstack.identity import DOMAIN, PASSWORD, REGION, USERS, Identity
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import Request, ServiceType
from watcher_sync.testing.openstack.placement import Placement

RULES: Final = frozenset(
    {"os-aggregates:index", "os-extended-server-attributes", "os-hypervisors:list-detail", "os-migrations:index",
     "os-migrations:index:host", "os-server-groups:index", "os-services:list", "servers:allow_all_filters",
     "servers:detail:get_all_tenants"}
)  # fmt: skip
"""The rules by which an account without the role admin sees as much as one can. Others are not simulated."""

User = Literal["admin", "demo", "auditor"]


class FakeOpenStack:
    """Keystone, Nova and Placement over HTTP on loopback, for tests, benchmarks and the demo::

        inventory = Inventory()
        inventory.add_host("compute-0")
        inventory.add_server("vm-1", host="compute-0")
        with FakeOpenStack(inventory) as cloud:
            connection = openstack.connect(**cloud.connect_options())
            cloud.fail(server_error(503), path="/servers/detail", after=2)
            ...
            assert cloud.requests.count("/servers/detail") == 4

    Writes are not served: a test changes the inventory. All methods may be called from any thread.
    """

    def __init__(
        self,
        inventory: Inventory | None = None,
        *,
        host: str = "127.0.0.1",
        token_lifetime: float = 3600.0,
        max_limit: int = 1000,
        max_microversion: tuple[int, int] = (2, 104),
        enforce_scope: bool = True,
        rpc_timeout: float = 0.0,
    ) -> None:
        """
        :param inventory: the content; an empty one without it.
        :param token_lifetime: seconds that a token is valid.
        :param max_limit: the largest page of Nova, its option ``[api] max_limit``.
        :param max_microversion: the newest version that Nova serves, 2.53 or later.
        :param enforce_scope: whether tokens of the system scope are refused, as Nova and Placement do since 2023.
        :param rpc_timeout: seconds that Nova waits for a compute whose process is dead, before it answers 500.
        """
        self.inventory = Inventory() if inventory is None else inventory
        self.faults = Faults[Action, Request]()
        self.requests = OpenStackRequests()
        self._identity = Identity(self.inventory, lifetime=token_lifetime, endpoints=self._endpoints)
        self.rules = set(RULES)
        """Nova's rules that the user ``auditor`` passes, without ``os_compute_api:``."""
        self._compute = Compute(
            self.inventory, self._identity, max_limit=max_limit, max_version=max_microversion,
            enforce_scope=enforce_scope, rpc_timeout=rpc_timeout, rules=self.rules,
        )  # fmt: skip
        self._placement = Placement(self.inventory, self._identity, enforce_scope=enforce_scope)
        self.identity = self._listener("identity", self._identity.serve, host)
        self.compute = self._listener("compute", self._compute.serve, host)
        self.placement = self._listener("placement", self._placement.serve, host)
        """The three ports. ``cloud.placement.stop()`` closes one, ``start()`` opens it again."""
        self._former: list[Listener] = []
        """Ports of services that moved."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen on three ports, the same ones as before if there were any. :raises OSError: if one is taken."""
        for listener in (self.identity, self.compute, self.placement):
            listener.start()

    def stop(self) -> None:
        """Cut all connections. The content and the tokens stay."""
        for listener in (self.identity, self.compute, self.placement, *self._former):
            listener.stop()

    def move(self, service: Literal["compute", "placement"]) -> Listener:
        """Serve a service at another port, which the catalogue names from now on.

        :returns: the port before, where the service goes on.
        """
        former: Listener = getattr(self, service)
        serve = self._compute.serve if service == "compute" else self._placement.serve
        new = self._listener(service, serve, former.host)
        new.start()
        setattr(self, service, new)
        self._former.append(former)
        return former

    def add_region(self, name: str, other: FakeOpenStack, *, first: bool = False) -> None:
        """Name Nova and Placement of another cloud in the catalog. They accept the tokens of this cloud.

        :param first: before the regions that the catalog has already.
        """
        self._identity.add_region(name, other._identity, first=first)

    @property
    def auth_url(self) -> str:
        """Keystone's URL, such as ``http://127.0.0.1:40123/v3``."""
        return f"{self.identity.url}/v3"

    def options(
        self,
        user: User = "admin",
        *,
        credential: Literal["password", "application_credential"] = "password",
        scope: Literal["project", "system"] = "project",
    ) -> dict[str, str]:
        """The options of keystoneauth, as the configuration file and ``clouds.yaml`` name them.

        :param user: ``demo`` may not list services, hypervisors, aggregates and the servers of others. ``auditor`` may
            do what :attr:`rules` name.
        :param scope: of a password; an application credential is for its project.
        """
        one = USERS[user]
        if credential == "application_credential":
            return {
                "auth_type": "v3applicationcredential",
                "auth_url": self.auth_url,
                "application_credential_id": one.credential_id,
                "application_credential_secret": one.credential_secret,
            }
        options = {
            "auth_type": "password",
            "auth_url": self.auth_url,
            "username": one.name,
            "password": PASSWORD,
            "user_domain_name": DOMAIN["name"],
        }
        if scope == "system":
            return {**options, "system_scope": "all"}
        return {**options, "project_name": one.project, "project_domain_name": DOMAIN["name"]}

    def connect_options(self, user: User = "admin", **more: Any) -> dict[str, Any]:
        """The arguments of ``openstack.connect``; more are those of :meth:`options`."""
        auth = self.options(user, **more)
        return {"auth_type": auth.pop("auth_type"), "auth": auth, "region_name": REGION, "load_yaml_config": False,
                "load_envvars": False}  # fmt: skip

    def clouds_yaml(self, path: pathlib.Path | str, *, name: str = "fake", user: User = "admin", **more: Any) -> str:
        """Write a ``clouds.yaml`` with one cloud, and return its path; more are arguments of :meth:`options`."""
        auth = self.options(user, **more)
        cloud = {"auth_type": auth.pop("auth_type"), "auth": auth, "region_name": REGION, "identity_api_version": "3"}
        pathlib.Path(path).write_text(yaml.safe_dump({"clouds": {name: cloud}}), encoding="utf-8")
        return str(path)

    def fail(
        self,
        action: Action,
        *,
        path: str = "",
        service: ServiceType | None = None,
        method: str | None = None,
        when: Callable[[Request], bool] | None = None,
        count: int | None = 1,
        after: int = 0,
    ) -> Fault[Action, Request]:
        """Let requests fail from now on.

        :param action: see :mod:`watcher_sync.testing.http.faults` and :mod:`watcher_sync.testing.openstack.faults`.
        :param path: part of the path, such as ``/servers/detail``; all paths without it.
        :param service: the service; all without it.
        :param method: the HTTP method; all without it.
        :param when: further condition on the request.
        :param count: how often it happens; None: until :meth:`heal`.
        :param after: how many matching requests pass first, so ``after=2`` meets the third page.
        """
        condition = Condition(path, service, method, when)
        fault = Fault(action, condition, count=count, after=after, between=0)
        self.faults.add(fault)
        return fault

    def heal(self) -> None:
        """No fault happens any more."""
        self.faults.clear()

    def expire_tokens(self) -> None:
        """All tokens issued so far are invalid."""
        self._identity.expire_tokens()

    def _endpoints(self) -> Mapping[str, str]:
        return {
            "identity": self.auth_url,
            "compute": f"{self.compute.url}/v2.1",
            "placement": self.placement.url,
        }

    def _listener(self, service: ServiceType, serve: Serve, host: str) -> Listener:
        endpoint = Endpoint(
            service, serve, self.faults, self.requests, self.expire_tokens, lambda: self.inventory.clock()
        )
        return Listener(functools.partial(ServiceHandler, endpoint), name=f"openstack-{service}", host=host)
