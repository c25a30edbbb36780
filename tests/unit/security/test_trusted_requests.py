# SPDX-License-Identifier: Apache-2.0
"""Hosts, origins, proxies, headers, ids with a newline, and ids with a slash."""

from __future__ import annotations

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.simulated import telling, told
from tests.unit.api.conftest import Client
from watcher_sync.api.http.validation import compiled
from watcher_sync.api.identity.authentication import is_foreign_origin
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

PATH = "/v1/service_type_instances"
VM = {"service_type": "vm"}


@pytest.fixture
def keystone(conf, store):
    """Makes an API with Keystone and some options; gives a function that asks it with an administrator's token."""
    with AuthTokenFixture() as fixture:
        token = "a" * 32
        fixture.add_token_data(
            token_id=token,
            user_id="u" * 32,
            user_name="some",
            project_id="f" * 32,
            project_name="some",
            role_list=["admin"],
        )

        def configured(**options):
            conf.set_override("auth_strategy", "keystone", group="api")
            for name, value in options.items():
                conf.set_override(name, value, group="api")
            client = Client(make_application(conf, store))

            def ask(path="/v1/compute_nodes", host="watcher.example", **headers):
                return client.simulate_get(path, host=host, headers={"X-Auth-Token": token, **headers})

            return ask

        yield configured


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://attacker.example", 403),
        ("null", 403),
        ("http://watcher.example:1", 403),
        ("ftp://watcher.example", 403),
        ("http://[", 403),
        ("http://watcher.example", 200),
        ("https://console.example", 200),
    ],
)
def test_with_keystone_a_page_of_another_host_is_refused(keystone, problem, origin, status):
    answer = keystone(allowed_origins=["https://console.example"])(Origin=origin)
    assert answer.status_code == status
    if status == 403:
        assert "page of another host" in problem(answer, 403)["detail"]


def test_the_files_of_the_page_come_with_the_origin_that_a_browser_sends_for_a_module(client, problem):
    page = {"Origin": "https://watcher.example"}
    assert client.simulate_get("/static/app.js", headers=page).status_code == 200
    assert "allowed_origins" in problem(client.simulate_get("/v1", headers=page), 403)["detail"]


@pytest.mark.parametrize(("page", "foreign"), [("http://api.example", True), ("https://api.example", False)])
def test_a_page_without_tls_is_foreign_to_an_api_with_tls(page, foreign):
    environ = {"HTTP_HOST": "api.example", "HTTP_ORIGIN": page, "wsgi.url_scheme": "https"}
    assert is_foreign_origin(environ, frozenset()) is foreign


def test_with_keystone_only_allowed_hosts_are_served(keystone, problem):
    ask = keystone(allowed_hosts=["watcher.example"])
    assert ask().status_code == 200
    assert ask(host="WATCHER.example").status_code == 200
    assert "allowed_hosts" in problem(ask(host="attacker.example"), 403)["detail"]


@pytest.mark.slow
def test_with_keystone_every_host_is_served_by_default(keystone):
    assert keystone()(host="other.example").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Forwarded-For": "192.0.2.1"}, 403),
        ({"X-Forwarded-For": "127.0.0.1, 192.0.2.1"}, 403),
        ({"X-Forwarded-For": "127.0.0.1"}, 200),
        ({"Forwarded": 'for=192.0.2.1;proto=http, for="[2001:db8::1]:4711"'}, 403),
        ({"Forwarded": "for=unknown"}, 403),
        ({"Forwarded": 'For="[::1]:80"'}, 200),
        ({"X-Real-IP": "192.0.2.1"}, 403),
        ({"Via": "1.1 proxy"}, 403),
        ({"Via": "1.1 proxy", "X-Forwarded-For": "::1"}, 200),
    ],
)
def test_without_authentication_a_local_proxy_does_not_let_strangers_in(client, problem, headers, status):
    answer = client.simulate_get("/v1", headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert "another machine" in problem(answer, 403)["detail"]


@pytest.mark.slow
def test_without_authentication_another_host_needs_a_place_among_the_allowed(conf, store, client, problem):
    problem(client.simulate_get("/v1", host="watcher.example"), 403)
    conf.set_override("allowed_hosts", ["watcher.example"], group="api")
    assert Client(make_application(conf, store)).simulate_get("/v1", host="watcher.example").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1", "/v1/instances", "/v1/nothing", "/nothing", "/healthcheck", "/openapi.json"])
@pytest.mark.parametrize("host", ["localhost", "attacker.example"])
def test_every_answer_has_the_headers(client, path, host):
    headers = client.simulate_get(path, host=host).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert {"x-auth-token", "accept"} <= {word.strip().lower() for word in headers["vary"].split(",")}


def test_the_files_of_the_page_may_be_cached_and_have_the_other_headers(client):
    headers = client.simulate_get("/static/app.js").headers
    assert headers["cache-control"] == "no-cache"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["vary"]


def test_an_id_with_a_newline_at_its_end_is_refused(client, problem):
    problem(client.simulate_post(PATH, json={**VM, "id": "a\n"}), 400)
    problem(client.simulate_put(f"{PATH}/a%0A", json=VM), 400)
    assert client.simulate_put(f"{PATH}/a", json=VM).status_code == 201


def test_a_pattern_means_what_ecma_262_says():
    assert compiled("^a$").search("a")
    assert not compiled("^a$").search("a\n")
    assert compiled(r"^[$]\$$").search("$$")
    assert compiled("^(a$|b)").search("b")


@pytest.mark.parametrize("path", ["kubevirt/vm", "kubevirt%2Fvm"])
def test_an_entity_whose_id_has_a_slash_can_be_asked_for(client, store, path):
    provider = Upsert("provider", "kubevirt/vm", "1", {"state": {"name": "kubevirt"}})
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, provider)]))
    shown = client.simulate_get(f"/v1/providers/{path}")
    assert shown.status_code == 200
    assert shown.json["id"] == "kubevirt/vm"
    tag = {"If-None-Match": shown.headers["etag"]}
    assert client.simulate_get(f"/v1/providers/{path}", headers=tag).status_code == 304
    history = client.simulate_get(f"/v1/providers/{path}/history?limit=1")
    assert history.json["history"][0]["id"] == "kubevirt/vm"


def test_an_id_with_a_slash_that_does_not_exist_is_404(client, problem):
    for path in ("/v1/providers/a/b", "/v1/providers/a/b/history", "/v1/instances/a/b", "/v1/sources/a/b"):
        problem(client.simulate_get(path), 404)
