# SPDX-License-Identifier: Apache-2.0
"""Every route is made of declared operations, and every declared operation has a route."""

from __future__ import annotations

import ast
import inspect
import pathlib

import pytest
from oslo_config import cfg
from oslo_policy import generator, policy

import watcher_sync
from tests.simulated import nova
from watcher_sync.api.http import openapi
from watcher_sync.api.http.rules import rules_of
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_app, make_routes

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace", "connect")


@pytest.fixture
def routes(conf, store):
    return make_routes(Service(conf, store), nova())


def responders(routes):
    """(path, method, function) of everything that a route answers."""
    for path, resource in routes:
        for method in METHODS:
            function = getattr(resource, f"on_{method}", None)
            if function is not None:
                yield path, method, function


def test_every_method_of_every_route_is_an_operation(routes):
    assert [r for r in responders(routes) if not hasattr(r[2], "operation")] == []


def _is_declaration(node):
    """Whether this is ``operation(...)``: a decorator, or what is called with a bound method."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "operation"


def test_no_operation_is_orphaned(routes):
    routed = {(inspect.getsourcefile(inspect.unwrap(f)), inspect.unwrap(f).__name__) for _, _, f in responders(routes)}
    declared = set()
    for path in pathlib.Path(watcher_sync.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(map(_is_declaration, node.decorator_list)):
                declared.add((str(path), node.name))
            elif isinstance(node, ast.Call) and _is_declaration(node.func):
                (method,) = node.args
                declared.add((str(path), method.attr))
    assert len(declared) > 5
    assert declared == routed


def test_every_operation_is_in_the_document_with_its_rule(client, routes):
    document = client.simulate_get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    described = {(p, m): o for p, item in document["paths"].items() for m, o in item.items()}
    assert {(p, m) for p, m, _ in responders(routes)} == set(described)
    assert all(o["x-policy-rule"] for o in described.values())
    ids = [o["operationId"] for o in described.values()]
    assert len(ids) == len(set(ids))


def test_every_rule_has_a_default_that_can_be_parsed(routes):
    rules = rules_of(openapi.operations(routes))
    assert all(isinstance(rule, policy.RuleDefault) for rule in rules)
    assert {o.rule.name for _, _, o in openapi.operations(routes)} <= {rule.name for rule in rules}


def test_the_policy_sample_is_what_the_operations_say(tmp_path):
    sample = pathlib.Path(__file__).parents[3] / "etc/watcher-sync/policy.yaml.sample"
    made = tmp_path / "policy.yaml"
    conf = cfg.ConfigOpts()
    generator.generate_sample(["--namespace", "watcher_sync", "--output-file", str(made)], conf)
    assert made.read_text() == sample.read_text()
    assert "quarantine:replay" in made.read_text()


def test_a_resource_with_an_undeclared_method_is_refused(conf, store):
    class Bare:
        def on_get(self, request, response):
            raise AssertionError

    with pytest.raises(TypeError, match="no operation"):
        list(openapi.operations([("/bare", Bare())]))
    assert make_app(Service(conf, store), nova()) is not None


def test_the_version_document_names_the_kinds(client):
    version = client.simulate_get("/v1").json["version"]
    assert version["id"] == "v1"
    assert version["kinds"]["instance"] == "/v1/instances"


def test_the_version_document_names_the_references_and_the_names_of_the_kinds(client):
    version = client.simulate_get("/v1").json["version"]
    host = {"kind": "compute_node", "relation": "runs_on", "lists_dependents": False}
    assert version["references"]["instance"]["host"] == host
    hosts = {"kind": "compute_node", "relation": "member_of", "lists_dependents": True}
    assert version["references"]["aggregate"] == {"hosts": hosts}
    assert "cluster" not in version["references"]
    names = version["names"]
    assert (names["service_type_instance"], names["instance"], names.get("cluster")) == ("instance_name", "name", None)
