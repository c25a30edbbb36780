# SPDX-License-Identifier: Apache-2.0
"""Eight callers of an API with Keystone's tokens, and a model in which something belongs to one project."""

from __future__ import annotations

import datetime
import itertools
import uuid

from keystoneauth1.fixture import V3Token

from tests.syncing import syncing_with
from tests.unit.api.conftest import Client
from tests.unit.extensions.log.rows import outlet_cursor
from tests.unit.extensions.vnf.api.test_instances import DEMO, written
from tests.unit.extensions.vnf.api.test_sync import Syncing
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.conf.namespaces import CLUSTER, NAMESPACE_PROJECTS
from watcher_sync.extensions.log.cursors import write_outlet
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.source_status import SourceRow, write_sources

OWN, OTHER = "a" * 32, "b" * 32
"""The project that owns the entities, and another one."""

CALLERS = ("nobody", "reader", "member", "admin", "stranger", "system_reader", "system_admin", "service")
"""No token; reader, member and admin of the own project; member of another one; reader and admin of the system; a
service."""

LIKE = {"manager": "member", "strange_manager": "stranger", "system_member": "system_reader",
        "system_manager": "system_reader", "own_service": "service"}  # fmt: skip
"""Caller -> another one that gets the same answer of each operation."""

_ROLES = {
    "reader": (["reader"], {"project_id": OWN}),
    "member": (["member", "reader"], {"project_id": OWN}),
    "manager": (["manager"], {"project_id": OWN}),
    "admin": (["admin", "member", "reader"], {"project_id": OWN}),
    "stranger": (["member", "reader"], {"project_id": OTHER}),
    "system_reader": (["reader"], {"system": {"all": True}}),
    "system_member": (["member"], {"system": {"all": True}}),
    "system_manager": (["manager"], {"system": {"all": True}}),
    "system_admin": (["admin", "member", "reader"], {"system": {"all": True}}),
    "service": (["service"], {"project_id": "5" * 32}),
    "own_service": (["service"], {"project_id": OWN}),
    "strange_manager": (["manager"], {"project_id": OTHER}),
    "domain_manager": (["manager"], {"domain_id": "d" * 32}),
    "domain_admin": (["admin", "member", "reader"], {"domain_id": "d" * 32}),
}

STI = {"service_type": "vm", "instance_name": "one", "spec": {"cpu": 2}}
SERVER, POD, WORKLOAD, CUSTOM_OBJECT, NODE = "server", "pod", "workload", "object", "compute-1"


def token(fixture, roles, *, project_id=None, system=None, domain_id=None):
    """The header with a new token."""
    made = V3Token(user_id=uuid.uuid4().hex, user_name="somebody")
    if domain_id is not None:
        made.set_domain_scope(id=domain_id, name="d")
    if project_id is not None:
        made.set_project_scope(id=project_id, name="p", domain_id="default", domain_name="Default")
    if system is not None:
        made.set_system_scope()
    for role in roles:
        made.add_role(name=role)
    return {"X-Auth-Token": fixture.add_token(made)}


def configured(conf, projects, name="k8s", cluster="edge"):
    """The configuration with a source whose namespaces belong to projects."""
    conf.set_override("enabled_sources", [name], group="engine")
    opts.register_source(conf, name, [CLUSTER, NAMESPACE_PROJECTS])
    conf.set_override("driver", "kubernetes", group=f"source_{name}")
    conf.set_override("cluster", cluster, group=f"source_{name}")
    conf.set_override("namespace_projects", projects, group=f"source_{name}")
    return conf


class Api:
    """The application with tokens. ``api(caller, method, path, ...)`` sends a request."""

    def __init__(self, conf, store, fixture):
        conf.set_override("auth_strategy", "keystone", group="api")
        if not conf.engine.enabled_sources:
            configured(conf, {"default": OWN, "theirs": OTHER})
        self.store = store
        self.application = make_application(conf, store, extensions=syncing_with(Syncing(store)))
        self.client = Client(self.application)
        self.cycle = CommitCycle(store, store.load(), load_handlers(conf))
        self._headers = {"nobody": {}, **{name: token(fixture, r, **scope) for name, (r, scope) in _ROLES.items()}}
        self._numbers = itertools.count()

    def __call__(self, caller, method, path, *, headers=(), **more):
        sent = {**self._headers[caller], **dict(headers)}
        return self.client.simulate_request(method, path, headers=sent, **more)

    def headers(self, caller):
        """The headers of a caller's requests."""
        return dict(self._headers[caller])

    def fill(self):
        """One entity of each kind; what can belong to a project belongs to the own one."""
        instance = {
            "state": {"state": "active"},
            "details": {"project_id": OWN, "name": "web"},
            "placement": {"host": NODE, "node": f"{NODE}.example"},
        }
        written(
            self.cycle,
            Upsert("instance", SERVER, "1", instance),
            Upsert("aggregate", "aggregate", "1", {"state": {"name": "fast"}, "hosts": {"hosts": [NODE]}}),
            Upsert("provider", "provider", "1", {"state": {"name": "p", "state": "available"}}),
            Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}),
            Upsert("pod", POD, "1", {"state": {"project_id": OWN, "namespace": "n", "cluster": "edge", "node": NODE}}),
            Upsert("custom_object", CUSTOM_OBJECT, "1", {"state": {"project_id": OWN, "cluster": "edge"}}),
            Upsert("workload", WORKLOAD, "1", {"state": {"project_id": OWN, "namespace": "n", "cluster": "edge"}}),
        )
        self.bind()
        now = datetime.datetime.now(datetime.UTC)
        drifts = [
            FieldDifference(
                kind="instance", entity_id=SERVER, field="state", model_value="a", live_value="b", policy="heal"
            ),
            FieldDifference(
                kind="instance", entity_id=SERVER, field="host", model_value="a", live_value="b", policy="heal"
            ),
            FieldDifference(kind="compute_node", entity_id=NODE, field="state", model_value="up", policy="heal"),
        ]
        state = {"engine_group": "default", "host": "here", "pid": 1, "state": "connected", "since": now}
        write_sources(self.store.database, [SourceRow(source="nova", updated_at=now, **state)])
        write_outlet(self.store.database, outlet_cursor(outlet="nova", since=now, updated_at=now))
        replace_drifts(self.store.database, drifts, source="nova", kinds=["instance", "compute_node"], now=now)

    def bind(self):
        """Bind a source to a provider, again if a test reset it."""
        version = str(next(self._numbers) + 1)
        written(self.cycle, Upsert("provider_binding", "binding", version, {"state": {"source": "p.localhost"}}))

    def made(self, plural, **more):
        """The id of a new entity of the own project."""
        body = {**(DEMO if plural == "vnf_instances" else STI), "project_id": OWN, **more}
        result = self("admin", "POST", f"/v1/{plural}", json=body)
        assert result.status_code == 201, result.text
        return result.json["id"]

    def operation(self, entity_id, caller="admin"):
        """The id of a running operation on a VNF instance, and the headers of its owner.

        :param caller: begins it; one who may not has a member begin it.
        """
        body = {"operation": "SCALE", "holder": "lcm"}
        path = f"/v1/vnf_instances/{entity_id}/operations"
        result = self(caller, "POST", path, json=body)
        if result.status_code != 201:
            result = self("member", "POST", path, json=body)
        assert result.status_code == 201, result.text
        return result.json["id"], {"Operation-Secret": result.json["secret"]}

    def subscribed(self, instance_id, **more):
        """The name of a new subscription of an instance."""
        body = {"name": f"s{next(self._numbers)}", "callback-url": "https://receiver.example.com/?key=1", **more}
        result = self("admin", "POST", f"/v1/instance/{instance_id}/status/subscription", json=body)
        assert result.status_code == 201, result.text
        return body["name"]

    def watched(self):
        """The name of a new watch topic of the own project."""
        topic = {"name": f"t{next(self._numbers)}", "spec": {"filters": [{"group": "*", "kind": "*"}]}}
        result = self("member", "POST", "/management/v1alpha1/watchtopics", json=topic)
        assert result.status_code == 201, result.text
        return topic["name"]

    def quarantined(self):
        """The id of a new event in quarantine."""
        number = next(self._numbers)
        event = Event(id=f"q{number}", type="undecodable", source="nova", data=b"{%d" % number, undecodable="no JSON")
        self.cycle.run(Batch(events=[event]))
        rows = self("admin", "GET", "/v1/quarantine", params={"limit": 1000}).json["quarantine"]
        return next(row["id"] for row in rows if row["event_id"] == event.id)
