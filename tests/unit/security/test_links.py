# SPDX-License-Identifier: Apache-2.0
"""The links of answers below a path: every one begins with the path that the client knows, and leads somewhere."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.unit.api.conftest import Client, application, client, conf, cycle, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import DEMO, written
from tests.unit.security.callers import SERVER
from tests.unit.security.test_operations import FORWARDING, TABLE, api, requested  # noqa: F401 - a fixture
from watcher_sync.assembly.api import make_application
from watcher_sync.model.changes import Upsert

BELOW = "/wätcher".encode().decode("latin-1")
PREFIX = "/w%C3%A4tcher"
LINK = re.compile(r"(https?:/)?/[^/\s].*")
NAMES = frozenset(
    {"selfLink", "callback-url", "$id", "$schema", "const", "jsonSchemaDialect", "pointer", "watchTopicSelfLink"}
)
"""Members that name something and lead nowhere: agents put a self link behind an address of their own."""


def links(document, name=""):
    """The links of a document, with the names of their members."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from links(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from links(value, name)
    elif isinstance(document, str) and name not in NAMES and LINK.fullmatch(document):
        yield name, document


def links_of(result):
    """The links of an answer: those of its headers, and of its document."""
    found = [(name, result.headers[name]) for name in ("Location", "Content-Location") if name in result.headers]
    found += [("Link", text) for text in re.findall("<([^>]*)>", result.headers.get("Link", ""))]
    if "json" in result.headers.get("Content-Type", ""):
        document = result.json
        # The paths of an OpenAPI document are relative to its servers.
        found += links({n: v for n, v in document.items() if n != "paths"} if isinstance(document, dict) else document)
    return found


def asked(api, operation, caller, **more):  # noqa: F811
    """The answer of an operation, of a list its first page."""
    method, path, given = requested(api, operation, caller)
    if method == "GET":
        first = api(caller, method, path, **{**given, "params": {**given.get("params", {}), "limit": 1}}, **more)
        if first.status_code == 200:
            return first
    return api(caller, method, path, **given, **more)


@pytest.fixture
def filled(api):  # noqa: F811
    """With two of what a project has, so that lists have a next page."""
    for _ in range(2):
        for plural in ("vnf_instances", "service_type_instances"):
            api.made(plural)
        api.quarantined()
        api.subscribed(SERVER)
    return api


def test_every_link_of_every_answer_has_the_prefix_and_leads_somewhere(filled):
    found = {}
    for operation in TABLE:
        result = asked(filled, operation, "admin", root_path=BELOW)
        for name, link in links_of(result):
            assert f"{link}/".startswith(f"{PREFIX}/"), (operation, name, link)
            path, _, query = link.removeprefix(PREFIX).partition("?")
            there = filled("admin", "GET", path or "/", query_string=query)
            assert there.status_code in (200, 405), (operation, name, link, there.text[:200])
            found.setdefault(name, set()).add(operation)
    assert {"Location", "next", "href", "url", "instance"} <= set(found), found
    assert len(found["next"]) > 3, found["next"]


def test_the_header_link_has_the_prefix(conf, store):  # noqa: F811
    conf.set_override("max_limit", 1, group="api")
    local = Client(make_application(conf, store))
    made = [local.simulate_post("/v1/vnf_instances", json={**DEMO, "id": name}) for name in ("a", "b")]
    assert [each.status_code for each in made] == [201, 201], made[0].text
    result = local.simulate_get("/vnflcm/v2/vnf_instances", root_path=BELOW)
    assert dict(links_of(result))["Link"].startswith(f"{PREFIX}/vnflcm/v2/vnf_instances?")
    assert result.json[0]["_links"]["self"]["href"] == f"{PREFIX}/vnflcm/v2/vnf_instances/a"


@pytest.mark.parametrize(
    ("removed", "below", "expected"),
    [
        ("/watcher", "", "/watcher"),
        ("/watcher/", "", "/watcher"),
        ("watcher", "", "/watcher"),
        ("/", "", ""),
        ("/a/b", "", "/a/b"),
        ("/outer", "/inner", "/outer/inner"),
        ("/first, /second", "", "/first/second"),
        ("/w%C3%A4tcher", "", "/w%C3%A4tcher"),
        ("/a b?c#d", "", "/a%20b%3Fc%23d"),
        ("//forged.example.com", "", "/forged.example.com"),
        ("/%2Fforged.example.com", "", "/forged.example.com"),
        ("/\\forged.example.com", "", "/%5Cforged.example.com"),
        ("https://forged.example.com", "", "/https:/forged.example.com"),
        ("/a/../..//%2e%2e/b", "", "/a/b"),
        ("", "//forged.example.com", "/forged.example.com"),
    ],
)
def test_a_path_that_a_trusted_proxy_removed_is_a_path_and_no_host(conf, store, removed, below, expected):  # noqa: F811
    conf.set_override("trusted_proxies", ["127.0.0.1"], group="api")
    local = Client(make_application(conf, store))
    headers = {**FORWARDING, "Host": "localhost", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Prefix": removed}
    version = local.simulate_get("/v1", headers=headers, root_path=below).json["version"]
    assert version["kinds"]["pod"] == f"{expected}/v1/pods"


def test_a_path_that_another_client_names_is_in_no_answer(filled):
    for operation in TABLE:
        method, path, more = requested(filled, operation, "member")
        headers = {**more.get("headers", {}), "X-Forwarded-Prefix": "/forged"}
        result = filled("member", method, path, **{**more, "headers": headers})
        assert "forged" not in result.text + str(result.headers), operation


@pytest.mark.parametrize("entity_id", ["a b", "50%", "a?b", "a#b", "ä", "a/b", "%2F"])
def test_a_link_to_any_id_leads_to_its_entity(client, cycle, entity_id):  # noqa: F811
    for number in range(3):
        written(cycle, Upsert("provider", entity_id, str(number), {"state": {"name": f"p{number}"}}))
    page = client.simulate_get(f"/v1/providers/{quote(entity_id, '')}/history", params={"limit": 1}).json
    seen = []
    while page["next"]:
        path, _, query = page["next"].partition("?")
        page = client.simulate_get(path, query_string=query).json
        seen += page["history"]
    assert len(seen) == 2
