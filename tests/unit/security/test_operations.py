# SPDX-License-Identifier: Apache-2.0
"""Every operation of the API: its rule, the scopes of its tokens, and the answer for each of eight callers."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import DEMO
from tests.unit.security.callers import CALLERS, CUSTOM_OBJECT, LIKE, NODE, OWN, POD, SERVER, STI, WORKLOAD, Api
from watcher_sync.api.http import openapi
from watcher_sync.api.http.rules import rules_of
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_routes
from watcher_sync.conf import keystone
from watcher_sync.dispatch import load_handlers
from watcher_sync.testing.openstack import FakeOpenStack
from watcher_sync.testing.openstack.identity import PASSWORD

BOTH, ANY = ["system", "project"], None

# no token, reader, member, admin, stranger, system reader, system admin, service
PUBLIC = (200, 200, 200, 200, 200, 200, 200, 200)
HOSTS = (401, 403, 403, 200, 403, 200, 200, 403)
ADMIN = (401, 403, 403, 200, 403, 403, 200, 403)
DROP = (401, 403, 403, 204, 403, 403, 204, 403)
LIST = (401, 200, 200, 200, 200, 200, 200, 403)
READ = (401, 200, 200, 200, 404, 200, 200, 403)
CREATE = (401, 403, 201, 201, 201, 403, 201, 403)
CREATE_IN = (401, 403, 201, 201, 404, 403, 201, 403)
WRITE = (401, 403, 200, 200, 404, 403, 200, 403)
DELETE = (401, 403, 204, 204, 404, 403, 204, 403)
ACCEPT = (401, 403, 202, 202, 404, 403, 202, 403)
BRING = (401, 403, 403, 200, 403, 403, 200, 200)

EVENTS = " or ".join(f"events:create:{dialect}" for dialect in ("dcm", "federation", "kubernetes", "nova", "other"))

SUBSCRIPTIONS = "/v1/instance/{instance_id}/status/subscription"
TOPICS = "/management/{version}/watchtopics"

TABLE = {
    "GET /": ("page:show", ANY, PUBLIC),
    "GET /static/{name}": ("page:show", ANY, PUBLIC),
    "GET /versions": ("versions:show", ANY, PUBLIC),
    "GET /v1": ("versions:show", ANY, PUBLIC),
    "POST /v1/login": ("login:create", ANY, PUBLIC),
    "GET /openapi.json": ("versions:show", ANY, PUBLIC),
    "GET /v1/events": ("events:list", BOTH, LIST),
    "POST /v1/events": (EVENTS, BOTH, BRING),
    "GET /v1/schemas": ("schemas:list", ANY, PUBLIC),
    "GET /v1/schemas/{format_name}/{kind_name}": ("schemas:show", ANY, PUBLIC),
    "GET /v1/engines": ("engines:list", BOTH, HOSTS),
    "GET /v1/outlets": ("outlets:list", BOTH, HOSTS),
    "GET /v1/outlets/{name}": ("outlets:show", BOTH, HOSTS),
    "GET /v1/sources": ("sources:list", BOTH, HOSTS),
    "GET /v1/sources/{name}": ("sources:show", BOTH, HOSTS),
    "GET /v1/search": ("search:list", BOTH, LIST),
    "GET /v1/diff": ("diff:list", BOTH, LIST),
    "GET /v1/topology": ("topology:show", BOTH, HOSTS),
    "GET /v1/graph": ("graph:show", BOTH, READ),
    "GET /v1/impact": ("impact:show", BOTH, READ),
    "GET /v1/compute_model": ("compute_model:show", BOTH, HOSTS),
    "GET /v1/drifts": ("drifts:list", BOTH, LIST),
    "GET /v1/leases": ("vnf_instances:operations", BOTH, LIST),
    "GET /v1/quarantine_reasons": ("quarantine:list", BOTH, ADMIN),
    "GET /v1/parked": ("parked:list", BOTH, HOSTS),
    "GET /v1/quarantine": ("quarantine:list", BOTH, ADMIN),
    "GET /v1/quarantine/{event_id}": ("quarantine:show", BOTH, ADMIN),
    "DELETE /v1/quarantine/{event_id}": ("quarantine:drop", BOTH, DROP),
    "POST /v1/quarantine/{event_id}/replay": ("quarantine:replay", BOTH, ADMIN),
    **{
        f"GET /v1/{plural}{path}": (f"{plural}:{what}", BOTH, HOSTS)
        for plural in ("aggregates", "compute_nodes", "providers", "provider_bindings", "clusters")
        for path, what in (("", "list"), ("/{entity_id}", "show"), ("/{entity_id}/history", "history"))
    },
    **{
        f"GET /apis/v1/{plural}/{{entity_id}}": (f"{plural}:show", BOTH, HOSTS)
        for plural in ("aggregates", "compute_nodes", "providers", "provider_bindings", "clusters")
    },
    "DELETE /v1/provider_bindings/{entity_id}": ("provider_bindings:delete", BOTH, DROP),
    "GET /v1/states": ("states:list", BOTH, HOSTS),
    **{
        f"GET /v1/{plural}{path}": (f"{plural}:{what}", BOTH, answers)
        for plural in ("instances", "pods", "workloads", "custom_objects", "service_type_instances", "vnf_instances")
        for path, what, answers in (
            ("", "list", LIST),
            ("/{entity_id}", "show", READ),
            ("/{entity_id}/history", "history", READ),
        )
    },
    **{
        f"GET /apis/v1/{plural}/{{entity_id}}": (f"{plural}:show", BOTH, READ)
        for plural in ("instances", "pods", "workloads", "custom_objects", "service_type_instances", "vnf_instances")
    },
    **{
        f"{method} /v1/{plural}{path}": (f"{plural}:{what}", BOTH, answers)
        for plural in ("service_type_instances", "vnf_instances")
        for method, path, what, answers in (
            ("POST", "", "create", CREATE),
            ("PUT", "/{entity_id}", "replace", WRITE),
            ("DELETE", "/{entity_id}", "delete", DELETE),
        )
    },
    "POST /v1/vnf_instances/{entity_id}/operations": ("vnf_instances:operate", BOTH, CREATE_IN),
    "GET /v1/vnf_instances/{entity_id}/operations": ("vnf_instances:operations", BOTH, READ),
    "GET /v1/vnf_instances/{entity_id}/operations/{operation_id}": ("vnf_instances:operations", BOTH, READ),
    "PUT /v1/vnf_instances/{entity_id}/operations/{operation_id}": ("vnf_instances:operate", BOTH, WRITE),
    "DELETE /v1/vnf_instances/{entity_id}/operations/{operation_id}": ("vnf_instances:operate", BOTH, DELETE),
    "GET /vnflcm/v2/vnf_instances": ("vnf_instances:list", BOTH, LIST),
    "GET /vnflcm/v2/vnf_instances/{entity_id}": ("vnf_instances:show", BOTH, READ),
    "POST /v1/vnf_instances/{entity_id}/sync": ("vnf_instances:sync", BOTH, WRITE),
    "GET /v1/subscriptions": ("subscriptions:list", BOTH, LIST),
    "GET /v1/instance/{instance_id}/status": ("instance_status:show", BOTH, READ),
    f"GET {SUBSCRIPTIONS}": ("subscriptions:list", BOTH, READ),
    f"POST {SUBSCRIPTIONS}": ("subscriptions:create", BOTH, CREATE_IN),
    f"GET {SUBSCRIPTIONS}/{{name}}": ("subscriptions:show", BOTH, READ),
    f"PUT {SUBSCRIPTIONS}/{{name}}": ("subscriptions:replace", BOTH, WRITE),
    f"DELETE {SUBSCRIPTIONS}/{{name}}": ("subscriptions:delete", BOTH, ACCEPT),
    f"POST {SUBSCRIPTIONS}/{{name}}/test": ("subscriptions:test", BOTH, ACCEPT),
    f"POST {SUBSCRIPTIONS}/{{name}}/replay": ("subscriptions:replay", BOTH, ACCEPT),
    f"GET {SUBSCRIPTIONS}/{{name}}/deliveries": ("subscriptions:deliveries", BOTH, READ),
    **{
        f"{method} {prefix}{TOPICS}{path}": (f"watchtopics:{what}", BOTH, answers)
        for prefix in ("", "/apis")
        for method, path, what, answers in (
            ("GET", "", "list", LIST),
            ("POST", "", "create", CREATE),
            ("GET", "/{name}", "show", READ),
            ("DELETE", "/{name}", "delete", DELETE),
        )
    },
    f"GET /events{TOPICS}/{{name}}": ("watchtopics:events", BOTH, READ),
}
"""Operation -> (rules, one of which is needed; scopes; the answers). The entity belongs to the own project."""

FIXED = {"instances": SERVER, "pods": POD, "workloads": WORKLOAD, "compute_nodes": NODE, "clusters": "edge",
         "custom_objects": CUSTOM_OBJECT, "aggregates": "aggregate", "providers": "provider",
         "provider_bindings": "binding"}  # fmt: skip

CLOUD_EVENT = {
    "specversion": "1.0", "id": "1", "source": "dcm/providers/p", "type": "dcm.status.vm", "subject": "dcm.vm",
    "time": "2026-07-01T12:00:00Z", "data": {"id": "unknown", "status": "RUNNING"},
}  # fmt: skip


@pytest.fixture
def operations(conf, store):  # noqa: F811
    """Operation -> its declaration."""
    routes = make_routes(Service(conf, store), load_handlers(conf))
    return {f"{method.upper()} {template}": op for template, method, op in openapi.operations(routes)}


@pytest.fixture
def api(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture, FakeOpenStack() as cloud:
        keystone.register_opts(conf)
        conf.set_override("auth_url", cloud.auth_url, group=keystone.GROUP)
        api = Api(conf, store, fixture)
        api.fill()
        yield api


def requested(api, operation, caller):
    """The method, the path and the rest of a request of an operation, on something new."""
    method, template = operation.split()
    path, more = template, {}
    if "{event_id}" in path:
        path = path.replace("{event_id}", str(api.quarantined()))
    below = template.removeprefix("/apis").replace("/vnflcm/v2/", "/v1/")
    plural = below.split("/")[2] if below.startswith("/v1/") else ""
    if "{entity_id}" in path:
        if plural == "provider_bindings":
            api.bind()
        entity_id = FIXED.get(plural) or api.made(plural)
        if "{operation_id}" in path:
            operation_id, headers = api.operation(entity_id, caller)
            path, more = path.replace("{operation_id}", operation_id), {"headers": headers}
        path = path.replace("{entity_id}", entity_id)
    if template.startswith(SUBSCRIPTIONS):
        subscription = {"name": "new", "callback-url": "https://receiver.example.com/"}
        if "{name}" in path:
            subscription["name"] = api.subscribed(SERVER)
            path = path.replace("{name}", subscription["name"])
        if method in ("POST", "PUT") and not path.endswith("/test"):
            more = {"json": {"since": 0} if path.endswith("/replay") else subscription}
    if TOPICS in template:
        topic = {"name": "new", "spec": {"filters": [{"group": "*", "kind": "*"}]}}
        if "{name}" in path:
            path = path.replace("{name}", api.watched())
        elif method == "POST":
            more = {"json": topic | {"name": f"new-{caller.replace('_', '-')}-{len(template)}"}}
        path = path.replace("{version}", "v1")
    path = path.replace("{instance_id}", SERVER).replace("{format_name}/{kind_name}", "cloudevents/instance")
    path = path.replace("/static/{name}", "/static/app.js").replace("{name}", "nova")
    if template == "/v1/events" and method == "POST":
        more = {"body": json.dumps(CLOUD_EVENT), "headers": {"Content-Type": "application/cloudevents+json"}}
    elif plural == "login":
        more = {"json": {"user": "demo", "password": PASSWORD, "project": "demo"}}
    elif plural == "search":
        more = {"params": {"q": "web"}}
    elif plural in ("graph", "impact"):
        more = {"params": {"root": f"instance/{SERVER}"}}
    elif plural == "diff":
        more = {"params": {"from": 0}}
    elif plural == "states":
        more = {"json": {"ids": [SERVER]}}
    elif method == "POST" and template.endswith("/operations"):
        more = {"json": {"operation": "SCALE", "holder": "lcm"}}
    elif method in ("POST", "PUT") and plural == "vnf_instances" and template.count("/") <= 3:
        more = {"json": {**DEMO, "namespace": "theirs"} if caller in ("stranger", "strange_manager") else DEMO}
    elif method in ("POST", "PUT") and plural == "service_type_instances":
        more = {"json": STI}
    return method, path, more


def test_every_operation_is_in_the_table_with_its_rule_and_its_scopes(operations):
    assert set(operations) == set(TABLE)
    scopes = {rule.name: rule.scope_types for rule in rules_of(("", "", op) for op in operations.values())}
    for name, operation in operations.items():
        rules, scope, _ = TABLE[name]
        assert " or ".join(rule.name for rule in operation.rules) == rules, name
        assert all(scopes[rule.name] == scope for rule in operation.rules), name


@pytest.mark.slow
@pytest.mark.parametrize("caller", [*CALLERS, *LIKE])
def test_each_caller_gets_the_answer_of_the_table(api, caller):
    wrong, column = {}, CALLERS.index(LIKE.get(caller, caller))
    for operation, (_, _, answers) in TABLE.items():
        method, path, more = requested(api, operation, caller)
        result = api(caller, method, path, **more)
        if result.status_code != answers[column]:
            wrong[operation] = (result.status_code, answers[column], result.text[:200])
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["domain_admin", "domain_manager"])
def test_a_token_of_a_domain_has_no_rights(api, caller):
    for operation, (_, scopes, _) in TABLE.items():
        method, path, more = requested(api, operation, caller)
        assert api(caller, method, path, **more).status_code == (403 if scopes else 200), operation


FORGED = "forged.example.com:1234"
FORWARDING = {
    "Host": FORGED, "X-Forwarded-Host": FORGED, "X-Forwarded-Server": FORGED, "X-Original-Host": FORGED,
    "Forwarded": f"host={FORGED};proto=http",
}  # fmt: skip


@pytest.mark.parametrize("caller", ["member", "system_admin", "nobody"])
def test_no_answer_has_a_host_of_the_request(api, caller):
    """A cache or a client that follows ``Location`` would send the token there."""
    located = {}
    for operation in TABLE:
        method, path, more = requested(api, operation, caller)
        result = api(caller, method, path, **{**more, "headers": {**more.get("headers", {}), **FORWARDING}})
        for text in (result.text, *map(str, result.headers.items())):
            assert "forged" not in text, (operation, text[:300])
        if "Location" in result.headers:
            located[operation] = result.headers["Location"]
    assert all(each.startswith(("/v1/", "/management/")) for each in located.values()), located
    assert caller == "nobody" or {operation.split()[0] for operation in located} == {"POST"}


def test_the_link_to_the_next_page_is_a_path(api):
    for _ in range(2):
        api.made("vnf_instances")
    page = api("member", "GET", "/v1/vnf_instances", params={"limit": 1}, headers=FORWARDING).json
    assert page["next"].startswith("/v1/vnf_instances?limit=1&")
    assert page["vnf_instances"][0]["_links"]["self"]["href"].startswith("/v1/vnf_instances/")


def test_the_own_project_is_the_one_of_the_token(api):
    assert api("member", "GET", f"/v1/instances/{SERVER}").json["project_id"] == OWN
