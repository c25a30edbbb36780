# SPDX-License-Identifier: Apache-2.0
"""What Keystone's default roles may do by each rule of the policy: admin, manager, member, reader, service."""

from __future__ import annotations

import pathlib
import re

import msgspec
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.documentation.test_references import extension
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync.api.http import openapi, rules
from watcher_sync.api.http.operation import Rule
from watcher_sync.api.http.request_context import ContextFactory
from watcher_sync.api.http.rules import rules_of
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_routes
from watcher_sync.dispatch import load_handlers

ROLES = ("admin", "manager", "member", "reader", "service")
IMPLIED = {
    "admin": ROLES[:4],
    "manager": ROLES[1:4],
    "member": ROLES[2:4],
    "reader": ROLES[3:4],
    "service": ("service",),
}
"""Role -> the roles that a token of Keystone has with it."""

ADMIN, MANAGE, WRITE, READ, BRING = {"admin"}, set(ROLES[:2]), set(ROLES[:3]), set(ROLES[:4]), {"admin", "service"}
SEE = {"admin", "readers of the system"}
"""Who may."""

RULES = {
    "events:create:other": ADMIN,
    "provider_bindings:delete": ADMIN,
    "vnf_instances:unmapped_namespace": ADMIN,
    "vnf_instances:foreign_namespace": ADMIN,
    "vnf_instances:force_end_operation": MANAGE,
    **dict.fromkeys(("quarantine:list", "quarantine:show", "quarantine:drop", "quarantine:replay"), ADMIN),
    **{f"events:create:{dialect}": BRING for dialect in ("dcm", "federation", "kubernetes", "nova")},
    **{
        f"{plural}:{what}": SEE
        for plural in ("aggregates", "clusters", "compute_nodes", "providers", "provider_bindings")
        for what in ("list", "show", "history")
    },
    **dict.fromkeys(
        ("compute_model:show", "engines:list", "outlets:list", "outlets:show", "parked:list", "sources:list",
         "sources:show", "states:list", "topology:show", "all_projects", "admin_only_fields"),
        SEE,
    ),
    **{
        f"{plural}:{what}": READ
        for plural in ("instances", "pods", "workloads", "custom_objects", "service_type_instances", "vnf_instances")
        for what in ("list", "show", "history")
    },
    **dict.fromkeys(
        ("vnf_instances:operations", "subscriptions:list", "subscriptions:show", "subscriptions:deliveries",
         "instance_status:show", "watchtopics:list", "watchtopics:show", "watchtopics:events", "events:list",
         "diff:list", "drifts:list", "graph:show", "impact:show", "search:list"),
        READ,
    ),
    **{f"{plural}:{what}": WRITE for plural in ("service_type_instances", "vnf_instances")
       for what in ("create", "replace", "delete")},
    **dict.fromkeys(
        ("vnf_instances:operate", "vnf_instances:sync", "subscriptions:create", "subscriptions:replace",
         "subscriptions:delete", "subscriptions:test", "subscriptions:replay", "watchtopics:create",
         "watchtopics:delete"),
        WRITE,
    ),
}  # fmt: skip
"""Rule -> who may, on what belongs to its own project."""

NAMED = {"admin_required", "service_role", "system_reader", "project_reader", "project_member", "project_manager"}
EVERYBODY = {"page:show", "versions:show", "login:create", "schemas:list", "schemas:show"}

PERSONAS = [
    (ADMIN, "admin"),
    (BRING, "service"),
    (SEE, "reader of the system"),
    (READ, "reader of the project or of the system"),
    (WRITE, "member of the project"),
    (MANAGE, "manager of the project"),
    (EVERYBODY, "everybody, without a token"),
]
"""(Who may, how the description of a rule names the lowest of them)."""

RAW = {"quarantine:list", "quarantine:show"}
"""The rules that read and are for no reader: their answers have parts of payloads. The page of the API says so."""

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/admin/api.rst"


@pytest.fixture
def operations(conf, store):  # noqa: F811
    return list(openapi.operations(make_routes(Service(conf, store), load_handlers(conf))))


@pytest.fixture
def contexts(conf, operations):  # noqa: F811
    rules = rules_of(operations)
    return ContextFactory(conf, rules, "keystone"), {rule.name: rule.description for rule in rules}


def context(factory, roles, *, project_id=None, system=False):
    """The context of a request that keystonemiddleware has checked."""
    environ = {
        "HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_ID": "u", "HTTP_X_ROLES": ",".join(roles),
        "keystone.token_info": {"token": {"system": {"all": True}} if system else {}},
    }  # fmt: skip
    return factory.of_environ(environ | ({} if project_id is None else {"HTTP_X_PROJECT_ID": project_id}))


def test_each_rule_of_the_policy_is_in_the_table(contexts):
    assert set(contexts[1]) == {*RULES, *NAMED, *EVERYBODY}


def test_the_description_of_each_rule_says_for_which_persona_it_is_and_why(contexts):
    named = {id(who): name for who, name in PERSONAS}
    for rule, description in contexts[1].items():
        if rule in NAMED:
            assert description.startswith("The persona ")
        else:
            who = RULES.get(rule, EVERYBODY)
            assert re.search(rf"[.] For {named[id(who)]}, because [^.]+[.]$", description), (rule, description)


def test_a_rule_without_a_persona_or_without_a_reason_is_refused(operations):
    template, method, op = operations[0]
    for rule, missing in (
        (Rule("things:drop", rules.ADMIN), "needs a reason"),
        (Rule("things:list", rules.EVERYBODY), "needs a reason"),
        (Rule("things:list", "role:reader", reason="it is new"), "no persona"),
    ):
        with pytest.raises(TypeError, match=missing):
            rules_of([(template, method, msgspec.structs.replace(op, rules=(rule,)))])


def test_the_table_of_the_documentation_names_the_persona_of_each_rule():
    lines = "\n".join(extension("watcher_sync_rest").rule_lines())
    assert ".. policy-rules::" in PAGE.read_text()
    for who, name in PERSONAS:
        for rule in EVERYBODY if who is EVERYBODY else [rule for rule in RULES if RULES[rule] is who]:
            assert f"   * - ``{rule}``\n     - {name}\n" in lines, rule


def test_what_reads_is_for_readers_and_the_page_names_each_exception(operations):
    reading = {rule.name for _, method, op in operations if method == "get" for rule in (*op.rules, *op.more_rules)}
    assert len(reading) > 50
    assert {name for name in reading - EVERYBODY if RULES[name] is not SEE and RULES[name] is not READ} == RAW
    (exceptions,) = (text for text in PAGE.read_text().split("\n\n") if text.startswith("*What no reader reads.*"))
    assert set(re.findall("``([^`]+)``", exceptions)) == RAW


@pytest.mark.parametrize("roles", [IMPLIED, {role: (role,) for role in ROLES}], ids=["implied", "alone"])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_what_the_table_says_and_only_in_its_own_project(contexts, role, roles):
    """A JWT may have a role without those that Keystone implies."""
    factory, _ = contexts
    of_project = context(factory, roles[role], project_id=OWN)
    of_system = context(factory, roles[role], system=True)
    everywhere, wrong = role in ("admin", "service"), []
    for rule, who in RULES.items():
        in_system = role in who if everywhere else who is SEE or who is READ
        wanted = (role in who, role in who and everywhere, in_system)
        found = (
            of_project.may_on(rule, OWN),
            of_project.may_on(rule, OTHER) or of_project.may_on(rule, None),
            of_system.may_on(rule, None),
        )
        if found != wanted:
            wrong.append((rule, found, wanted))
    assert not wrong


@pytest.fixture
def api(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        yield api


FORCED = {"force": "true", "state": "FAILED"}


def test_a_manager_ends_the_operation_of_another_user_by_force_in_its_own_project_only(api):
    entity_id = api.made("vnf_instances")
    operation, _ = api.operation(entity_id, "member")
    path = f"/v1/vnf_instances/{entity_id}/operations/{operation}"
    refused = {"member": 403, "reader": 403, "service": 403, "own_service": 403, "system_manager": 403,
               "strange_manager": 404, "stranger": 404}  # fmt: skip
    for caller, status in refused.items():
        assert api(caller, "DELETE", path, params=FORCED).status_code == status, caller
    assert api("manager", "DELETE", path).status_code == 403
    assert api("manager", "PUT", path).status_code == 403
    assert api("member", "GET", path).json["state"] == "RUNNING"
    assert api("manager", "DELETE", path, params=FORCED).status_code == 204
    assert api("member", "GET", path).json["state"] == "FAILED"


@pytest.fixture
def with_operate(conf, store, tmp_path):  # noqa: F811
    """Makes an API whose policy file has this rule for operations."""
    with AuthTokenFixture() as fixture:

        def make(rule):
            file = tmp_path / "policy.yaml"
            file.write_text(f"'vnf_instances:operate': '{rule}'\n")
            policy.Enforcer(conf)  # registers the options
            conf.set_override("policy_file", str(file), group="oslo_policy")
            api = Api(conf, store, fixture)
            api.fill()
            return api

        yield make


def test_a_policy_that_lets_others_operate_lets_no_manager_of_another_project_end_by_force(with_operate):
    api = with_operate("role:member or role:manager")
    entity_id = api.made("vnf_instances")
    operation, _ = api.operation(entity_id, "member")
    path = f"/v1/vnf_instances/{entity_id}/operations/{operation}"
    assert api("strange_manager", "DELETE", path, params=FORCED).status_code == 404
    assert api("manager", "DELETE", path, params=FORCED).status_code == 204


def test_a_policy_lets_a_service_lease_all_projects_instances_and_end_only_its_own_operations(with_operate):
    api = with_operate("rule:project_member or rule:admin_required or rule:service_role")
    entity_id = api.made("vnf_instances")
    operation, secret = api.operation(entity_id, "service")
    path = f"/v1/vnf_instances/{entity_id}/operations/{operation}"
    assert api("service", "PUT", path, headers=secret).status_code == 200
    assert api("service", "DELETE", path, headers=secret).status_code == 204
    of_member, _ = api.operation(entity_id, "member")
    path = path.replace(operation, of_member)
    assert api("service", "DELETE", path).status_code == 404
    assert api("service", "DELETE", path, params=FORCED).status_code == 403


def test_a_manager_has_no_right_of_an_administrator(api):
    body = {"cluster": "edge", "vnfd_id": "d", "vdus": {"V": {"workload": {"kind": "Pod", "name": "p"}, "initial": 1}}}
    for namespace in ("kube-system", "theirs"):
        assert api("manager", "POST", "/v1/vnf_instances", json={**body, "namespace": namespace}).status_code == 403
    given = {**body, "namespace": "default", "project_id": OTHER}
    assert api("manager", "POST", "/v1/vnf_instances", json=given).status_code == 403
    assert api("manager", "GET", "/v1/instances", params={"all_projects": "true"}).status_code == 403
    (server,) = api("manager", "GET", "/v1/instances").json["instances"]
    assert "host" not in server
