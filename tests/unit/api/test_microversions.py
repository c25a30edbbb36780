# SPDX-License-Identifier: Apache-2.0
"""Microversions: what a request may ask for, what an answer says, and that no version's document changes unseen.

Sources: OpenStack's microversion specification, and the discovery of keystoneauth.
"""

from __future__ import annotations

import difflib
import itertools
from pathlib import Path
from typing import Any

import falcon
import falcon.testing
import pytest
from keystoneauth1 import adapter, noauth, session
from microversion_parse import Version, parse_version_string
from oslo_policy import policy

from tests import api_documents
from tests.unit.client.conftest import served
from watcher_sync.api.http import microversions, openapi, problems
from watcher_sync.api.http import operation as operations
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.microversions import HEADER, NEWEST, OLDEST, SINCE, VERSIONS
from watcher_sync.api.http.operation import Answer, Call, RequestMiddleware, Rule, operation
from watcher_sync.api.http.request_context import ContextFactory

HISTORY = Path(__file__).parents[3] / "doc" / "source" / "reference" / "microversions.rst"


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (None, OLDEST),
        ("compute 2.90", OLDEST),
        ("watcher-sync latest", NEWEST),
        ("watcher-sync 1.0", Version(1, 0)),
        ("Watcher-Sync 1.0", Version(1, 0)),
        ("compute 2.90, watcher-sync 1.0", Version(1, 0)),
    ],
)
@pytest.mark.parametrize("path", ["/v1", "/v1/instances", "/openapi.json"])
def test_an_answer_names_its_version_and_that_it_depends_on_the_header(client, path, given, version):
    result = client.simulate_get(path, headers={} if given is None else {HEADER: given})
    assert result.status_code == 200
    assert result.headers[HEADER] == f"watcher-sync {version}"
    assert HEADER in result.headers["Vary"].split(", ")


def test_a_problem_names_the_version_too(client, problem):
    result = client.simulate_get("/v1/instances/missing", headers={HEADER: "watcher-sync latest"})
    problem(result, 404)
    assert result.headers[HEADER] == f"watcher-sync {NEWEST}"


@pytest.mark.parametrize("version", ["1.99", "2.0", "0.9"])
def test_a_version_that_this_release_lacks_is_406_with_those_it_has(client, problem, version):
    document = problem(client.simulate_get("/v1/instances", headers={HEADER: f"watcher-sync {version}"}), 406)
    assert (document["min_version"], document["max_version"]) == (VERSIONS[0], VERSIONS[-1])
    assert version in document["detail"]


@pytest.mark.parametrize("version", ["one", "1", "1.x", "1.0.0", "newest"])
def test_a_version_that_is_none_is_400_and_names_the_header(client, problem, version):
    document = problem(client.simulate_get("/v1/instances", headers={HEADER: f"watcher-sync {version}"}), 400)
    assert [(each["in"], each["pointer"]) for each in document["errors"]] == [("header", f"/{HEADER}")]


def test_the_interfaces_of_others_have_no_microversions(client):
    for path in ("/vnflcm/v2/vnf_instances", "/management/v1/watchtopics", "/versions"):
        result = client.simulate_get(path, headers={HEADER: "watcher-sync 1.99", "Version": "2.0.0"})
        assert (result.status_code, result.headers.get(HEADER)) == (200, None), path


def test_keystoneauth_discovers_the_versions(application):
    with served(application) as url:
        for endpoint in (url, f"{url}/", f"{url}/v1", f"{url}/versions"):
            found = adapter.Adapter(
                session.Session(auth=noauth.NoAuth(endpoint=endpoint)), service_type="watcher-sync", version="1"
            ).get_endpoint_data()
            assert found is not None
            assert (found.url.rstrip("/"), found.api_version) == (f"{url}/v1", (1, 0)), endpoint
            assert (found.min_microversion, found.max_microversion) == (tuple(OLDEST), tuple(NEWEST))
            asked = adapter.Adapter(
                session.Session(auth=noauth.NoAuth(endpoint=endpoint)),
                service_type="watcher-sync",
                default_microversion=VERSIONS[-1],
            ).get(f"{url}/v1/instances")
            assert asked.headers[HEADER] == f"watcher-sync {NEWEST}"


def test_a_browser_gets_the_page_at_the_root_and_a_client_the_versions(client):
    for accept in ("text/html,application/xhtml+xml,*/*;q=0.8", "*/*"):
        assert client.simulate_get("/", headers={"Accept": accept}).headers["content-type"].startswith("text/html")
    result = client.simulate_get("/", headers={"Accept": "application/json"})
    assert result.json == client.simulate_get("/versions").json


def test_the_document_of_each_version_is_the_stored_one():
    documents = api_documents.current()
    assert documents.keys() == set(VERSIONS)
    for version, text in documents.items():
        changes = difflib.unified_diff(api_documents.stored(version).splitlines(), text.splitlines(), lineterm="", n=4)
        assert not (shown := "\n".join(changes)), f"a change of the API is a new microversion:\n{shown}"


def test_a_change_of_one_field_is_seen(monkeypatch):
    monkeypatch.setitem(problems.SCHEMA["properties"], "used", {"type": "string"})
    text, before = api_documents.current()[VERSIONS[-1]], api_documents.stored(VERSIONS[-1])
    assert [each for each in difflib.ndiff(before.splitlines(), text.splitlines()) if each[0] in "+-"] == [
        '-      "used": {"type": "integer"}',
        '+      "used": {"type": "string"}',
    ]


def test_each_version_has_its_lines_in_the_history_and_a_document():
    lines = HISTORY.read_text().splitlines()
    headings = [line for line, rule in itertools.pairwise(lines) if rule and set(rule) == {"-"}]
    assert headings == list(VERSIONS)
    assert sorted(path.stem for path in api_documents.FOLDER.iterdir()) == sorted(VERSIONS)


RULE = Rule("test:show", "@")


def planted() -> list[openapi.Route]:
    """Routes of an API whose version 1.1 has one more operation, parameter, header and members."""

    class Things:
        @operation(
            summary="List things",
            rule=RULE,
            query={"size": {"type": "integer"}, "color": {"type": "string", SINCE: "1.1"}},
            headers={"X-Size": {"type": "string", "pattern": "^1$", SINCE: "1.1"}},
            responses={200: Answer({"type": "object", "required": ["old", "new"], "properties": _MEMBERS})},
            tag="things",
        )
        def on_get(self, call: Call) -> None:
            call.answer({"old": 1, **({"new": 2} if call.version >= (1, 1) else {})})

        @operation(
            summary="Make a thing",
            rule=RULE,
            body=Body({"application/json": {"type": "object", "properties": _MEMBERS, "additionalProperties": False}}),
            responses={204: Answer(None)},
            tag="things",
        )
        def on_post(self, call: Call) -> None:
            call.answer_nothing()

        @operation(summary="Forget things", rule=RULE, responses={204: Answer(None)}, tag="things", since="1.1")
        def on_delete(self, call: Call) -> None:
            call.answer_nothing()

    return [("/v1/things", Things())]


_MEMBERS: dict[str, Any] = {"old": {"type": "integer"}, "new": {"type": "integer", SINCE: "1.1"}}


@pytest.fixture
def two_versions(monkeypatch):
    """The API has the versions 1.0 and 1.1."""
    for module in (microversions, operations):
        monkeypatch.setattr(module, "VERSIONS", ("1.0", "1.1"))
    monkeypatch.setattr(microversions, "NEWEST", Version(1, 1))


@pytest.fixture
def things(two_versions, conf):
    """A client of the planted routes."""
    app: falcon.App[Any, Any] = falcon.App()
    app.add_middleware(
        RequestMiddleware(ContextFactory(conf, [policy.RuleDefault(RULE.name, RULE.default)]).of_environ, 1000)
    )
    problems.install(app)
    for template, resource in planted():
        app.add_route(template, resource)
    return falcon.testing.TestClient(app)


def at(version: str) -> dict[str, str]:
    return {HEADER: f"watcher-sync {version}"}


def test_an_older_version_lacks_what_a_newer_one_added(things, problem):
    assert things.simulate_get("/v1/things").json == {"old": 1}
    assert things.simulate_get("/v1/things", headers=at("1.0")).json == {"old": 1}
    assert things.simulate_get("/v1/things", headers=at("1.1")).json == {"old": 1, "new": 2}
    assert things.simulate_get("/v1/things", headers=at("latest")).headers[HEADER] == "watcher-sync 1.1"


def test_the_requests_of_each_version_are_validated_as_that_version(things, problem):
    color = {"params": {"color": "red"}}
    assert "color" in problem(things.simulate_get("/v1/things", **color, headers=at("1.0")), 400)["detail"]
    assert things.simulate_get("/v1/things", **color, headers=at("1.1")).status_code == 200
    assert things.simulate_get("/v1/things", headers={"X-Size": "2", **at("1.0")}).status_code == 200
    problem(things.simulate_get("/v1/things", headers={"X-Size": "2", **at("1.1")}), 400)
    assert "new" in problem(things.simulate_post("/v1/things", json={"new": 1}, headers=at("1.0")), 400)["detail"]
    assert things.simulate_post("/v1/things", json={"new": 1}, headers=at("1.1")).status_code == 204
    assert "1.1" in problem(things.simulate_delete("/v1/things", headers=at("1.0")), 404)["detail"]
    assert things.simulate_delete("/v1/things", headers=at("1.1")).status_code == 204


def test_the_document_of_each_version_describes_that_version(two_versions):
    routes = planted()
    first, second = (openapi.document(routes, "", parse_version_string(v), tokens=False) for v in ("1.0", "1.1"))
    old, new = first["paths"]["/v1/things"], second["paths"]["/v1/things"]
    assert (set(old), set(new)) == ({"get", "post"}, {"get", "post", "delete"})
    assert [p["name"] for p in old["get"]["parameters"]] == ["size"]
    assert [p["name"] for p in new["get"]["parameters"]] == ["size", "color", "X-Size"]
    answers = [each["get"]["responses"]["200"]["content"]["application/json"]["schema"] for each in (old, new)]
    assert [sorted(each["properties"]) for each in answers] == [["old"], ["new", "old"]]
    assert [each["required"] for each in answers] == [["old"], ["old", "new"]]
    bodies = [each["post"]["requestBody"]["content"]["application/json"]["schema"] for each in (old, new)]
    assert [sorted(each["properties"]) for each in bodies] == [["old"], ["new", "old"]]
