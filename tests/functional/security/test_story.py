# SPDX-License-Identifier: Apache-2.0
"""The story of an installation with a real Keystone, three projects and two providers, and of who tries what there.

The engine and the API are real processes, configured as the documentation says. Each part of the story continues where
the one before it ended, so it is one test.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.engine.driving import Installation
from tests.functional.security.keystone import Keystone, User, running_keystone
from tests.functional.security.provider_accounts import STREAM, Login, source
from tests.functional.security.provider_accounts import dcm as dcm
from tests.functional.security.provider_accounts import login as login
from tests.functional.security.provider_accounts import server as server
from tests.functional.security.serving import documented_api
from tests.functional.sources.jetstream import Dcm
from tests.services.servers import Server
from tests.waiting import wait_until
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.nova import notifications

SECRET = "Operation-Secret"
HOSTS = ("compute_nodes", "aggregates", "clusters", "providers", "sources", "topology", "quarantine")


class Caller:
    """A user with a token, and its requests."""

    def __init__(self, api: httpx.Client, keystone: Keystone, user: User, project_id: str | None) -> None:
        self.project_id = project_id
        self._api = api
        self._headers = {"X-Auth-Token": keystone.token(user, project_id)}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._api.request(method, f"/v1/{path}", json=body, headers=self._headers | names)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status_code == 201, answer.text
        return answer.json()


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, server: Server) -> Installation:
    site = install(sqlite_url, engine__enabled_sources="dcm")
    site.options |= source(server.url)
    site.upgrade()
    return site


def quarantined(site: Installation) -> dict[str, str]:
    """Event id -> reason."""
    rows = [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]
    return {row["event_id"]: row["reason"] for row in rows}


def configured_for_keystone(site: Installation, keystone: Keystone) -> Path:
    """The installation's file with the sections of the install guide."""
    config = site.config()
    config.write_text(
        config.read_text() + keystone.configuration() + "http_request_max_retries = 0\ntoken_cache_time = 2\n"
    )
    return config


@pytest.mark.rare
@pytest.mark.timeout(300)
def test_three_projects_and_two_providers_cannot_harm_or_see_each_other(
    site: Installation, dcm: Dcm, login: Callable[[str], Login], tmp_path: Path
) -> None:
    engine = site.engine(site.config())
    engine.wait_until_leading()
    with running_keystone(tmp_path / "keystone") as keystone:
        service = keystone.user("watcher-sync", None)
        admin_project = keystone.project("operators")
        keystone.grant(service, "service", admin_project)
        config = configured_for_keystone(site, keystone)
        config.write_text(
            config.read_text()
            .replace("password = PASSWORD", f"password = {service.password}")
            .replace("project_name = service", "project_name = operators")
        )
        with documented_api(config) as api:
            story(site, keystone, api, admin_project, login, dcm)
            keystone_goes_away(keystone, api)
    assert engine.terminate()[0] == 0
    site.check_journal()


def story(
    site: Installation,
    keystone: Keystone,
    api: httpx.Client,
    admin_project: str,
    login: Callable[[str], Login],
    dcm: Dcm,
) -> None:
    red, blue, green = (keystone.project(name) for name in ("red", "blue", "green"))

    def caller(name: str, project_id: str, *roles: str) -> Caller:
        return Caller(api, keystone, keystone.user(name, project_id, *roles), project_id)

    rosa, robert = caller("rosa", red, "member"), caller("robert", red, "member")
    bela, greta = caller("bela", blue, "member"), caller("greta", green, "reader")
    admin = caller("alma", admin_project, "admin")
    kubevirt, acm = login("kubevirt"), login("acm")

    # Each project has an instance, and one provider runs each of them.
    ids = {rosa: "i-red", bela: "i-blue"}
    for owner, provider in ((rosa, "kubevirt"), (bela, "acm")):
        spec = {"id": ids[owner], "service_type": "vm", "provider_name": provider, "spec": {}}
        made = owner.ask("POST", "service_type_instances", spec, Host="forged.example.com")
        assert made.json()["project_id"] == owner.project_id
        assert made.headers["Location"] == f"/v1/service_type_instances/{ids[owner]}"
    kubevirt.publish(publisher.status("i-red", "RUNNING", provider="kubevirt", event_id="red-1"), "dcm.vm")
    acm.publish(publisher.status("i-blue", "RUNNING", provider="acm", event_id="blue-1"), "dcm.vm")

    def status(of: Caller) -> str | None:
        found: str | None = of.get(f"service_type_instances/{ids[of]}")["status"]
        return found

    wait_until(lambda: status(rosa) == status(bela) == "RUNNING", what="both providers' events")

    providers_stay_in_their_dialect_and_their_name(site, dcm, kubevirt, acm)
    assert status(rosa) == status(bela) == "RUNNING"
    assert admin.get("instances")["instances"] == []
    projects_see_their_own(rosa, bela, greta, admin)
    leases_belong_to_somebody(rosa, robert, bela, greta, admin)
    the_journal_names_the_writers(rosa, bela, admin)


def providers_stay_in_their_dialect_and_their_name(site: Installation, dcm: Dcm, kubevirt: Login, acm: Login) -> None:
    delete = notifications.event("instance.delete.end", uuid=str(uuid.uuid4()))["payload"]
    attacks = {
        "another-dialect": {"type": "instance.delete.end", "data": delete},
        "an-empty-list": {"type": "kubernetes.pod.listed", "source": "edge", "data": {"uids": []}},
        "another-instance": publisher.status("i-blue", "DELETED", provider="kubevirt"),
        "another-name": publisher.status("i-blue", "DELETED", provider="acm"),
        "the-future": {"time": "5137-01-01T00:00:00Z"},
    }
    for name, more in attacks.items():
        document = publisher.status("i-red", "DELETED", provider="kubevirt")
        kubevirt.publish({**document, **more, "id": name}, "dcm.vm")
    assert "permissions violation" in kubevirt.try_publish("dcm.providers.acm.vm").lower()
    assert "permissions violation" in acm.try_publish(f"$JS.API.STREAM.PURGE.{STREAM}").lower()
    wait_until(lambda: set(attacks) <= quarantined(site).keys(), what="the attacks to be in quarantine")
    reasons = quarantined(site)
    for name in ("another-dialect", "an-empty-list", "another-instance", "another-name"):
        assert reasons[name].startswith("unauthorised"), reasons[name]
    assert "5137" in reasons["the-future"]


def projects_see_their_own(rosa: Caller, bela: Caller, greta: Caller, admin: Caller) -> None:
    def listed(of: Caller) -> list[str]:
        return [row["id"] for row in of.get("service_type_instances")["service_type_instances"]]

    assert (listed(rosa), listed(bela), listed(greta)) == (["i-red"], ["i-blue"], [])
    assert listed(admin) == ["i-blue", "i-red"]
    for path in ("service_type_instances/i-blue", "service_type_instances/i-blue/history"):
        for stranger in (rosa, greta):
            assert stranger.ask("GET", path).status_code == 404
    body = {"service_type": "vm", "provider_name": "kubevirt", "spec": {}}
    for method, path in (("PUT", "service_type_instances/i-blue"), ("DELETE", "service_type_instances/i-blue")):
        assert rosa.ask(method, path, body if method == "PUT" else None).status_code == 404
    assert rosa.ask("POST", "service_type_instances", {**body, "id": "i-blue"}).status_code == 404
    assert greta.ask("POST", "service_type_instances", body).status_code == 403
    seen = {event["id"] for event in rosa.get("events?since=0")["events"]}
    assert seen == {"i-red"}
    for path in HOSTS:
        assert rosa.ask("GET", path).status_code == 403, path
        assert admin.ask("GET", path).status_code == 200, path


def leases_belong_to_somebody(rosa: Caller, robert: Caller, bela: Caller, greta: Caller, admin: Caller) -> None:
    demo = {
        "name": "demo", "cluster": "edge", "namespace": "red", "vnfd_id": "helloworld3", "flavour_id": "simple",
        "vdus": {"VDU1": {"workload": {"kind": "Deployment", "name": "vdu1"}, "initial": 1, "min": 1, "max": 3}},
        "aspects": {"vdu1_aspect": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
    }  # fmt: skip
    # No project has the namespace.
    assert rosa.ask("POST", "vnf_instances", demo).status_code == 403
    vnf = admin.post("vnf_instances", {**demo, "project_id": rosa.project_id})
    operations = f"vnf_instances/{vnf['id']}/operations"
    lease = rosa.post(operations, {"operation": "SCALE", "holder": "lcm-red"})
    assert len(lease["secret"]) >= 43
    one = f"{operations}/{lease['id']}"
    for stranger in (bela, greta):
        assert stranger.ask("GET", operations).status_code == 404
    for secret in ({}, {"Operation_Secret": lease["secret"]}):
        assert bela.ask("PUT", one, **secret).status_code == 404
        assert bela.ask("DELETE", one, **secret).status_code == 404
    assert bela.ask("POST", operations, {"operation": "HEAL", "holder": "x"}).status_code == 404
    conflict = robert.ask("POST", operations, {"operation": "HEAL", "holder": "lcm-2"})
    assert (conflict.status_code, conflict.json()["holder"]) == (409, "lcm-red")
    shown = robert.get(operations)["operations"]
    assert [operation["token"] for operation in shown] == [lease["token"]]
    for answer in (conflict.text, json.dumps(shown), json.dumps(admin.get(one))):
        assert "secret" not in answer
    for secret in ({}, {"Operation_Secret": "x" * 43}, {"Operation_Secret": lease["secret"]}):
        assert robert.ask("PUT", one, **secret).status_code == 403
    assert rosa.ask("PUT", one, Operation_Secret=lease["secret"]).status_code == 200
    assert rosa.ask("DELETE", f"{one}?state=COMPLETED", Operation_Secret=lease["secret"]).status_code == 204


def the_journal_names_the_writers(rosa: Caller, bela: Caller, admin: Caller) -> None:
    written = admin.ask("PUT", "service_type_instances/i-blue", {
        "service_type": "vm", "provider_name": "acm", "spec": {"size": "large"},
    })  # fmt: skip
    assert written.status_code == 200, written.text
    assert written.json()["project_id"] == bela.project_id
    last = admin.get("service_type_instances/i-blue/history")["history"][-1]
    assert last["actor"]["project_id"] == admin.project_id
    assert last["actor"]["request_id"] == written.headers["X-OpenStack-Request-ID"]
    # Its own project sees the change, and not which user of another project made it.
    assert bela.get("service_type_instances/i-blue/history")["history"][-1]["actor"] is None
    first = rosa.get("service_type_instances/i-red/history")["history"][0]
    assert first["actor"]["project_id"] == rosa.project_id


def keystone_goes_away(keystone: Keystone, api: httpx.Client) -> None:
    project = keystone.project("last")
    token = {"X-Auth-Token": keystone.token(keystone.user("ludo", project, "reader"), project)}
    keystone.kill()
    answer = api.get("/v1/instances", headers=token)
    assert (answer.status_code, int(answer.headers["Retry-After"]) > 0) == (503, True)
    keystone.start()
    wait_until(lambda: api.get("/v1/instances", headers=token).status_code == 200, what="the return of Keystone")
