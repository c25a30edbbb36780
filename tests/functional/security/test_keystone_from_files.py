# SPDX-License-Identifier: Apache-2.0
"""The install guide, followed literally, against a real Keystone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.security.keystone import Keystone, running_keystone
from tests.functional.security.serving import documented_api
from tests.waiting import deadline, wait_until

BIN = Path(sys.executable).parent
CACHE_SECONDS = 2

# The first test includes the installation of Keystone.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """A Keystone in which the service is registered with the commands of the guide."""
    with running_keystone(tmp_path_factory.mktemp("keystone")) as keystone:
        keystone.register()
        yield keystone


@pytest.fixture
def config(keystone: Keystone, tmp_path: Path) -> Path:
    """The configuration of the guide with the address of this Keystone, a database, and a short life of the cache."""
    text = keystone.configuration()
    text += f"token_cache_time = {CACHE_SECONDS}\nhttp_request_max_retries = 0\n"
    text += f"[database]\nconnection = sqlite:///{tmp_path / 'ws.sqlite'}\n[operations]\nlease_time = 600\n"
    file = tmp_path / "watcher-sync.conf"
    file.write_text(text)
    done = subprocess.run(
        [BIN / "watcher-sync-manage", "--config-file", file, "db_sync"],
        capture_output=True, text=True, timeout=deadline(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture
def api(config: Path) -> Iterator[httpx.Client]:
    with documented_api(config) as client:
        yield client


def test_the_guide_works_and_tokens_are_judged(keystone: Keystone, api: httpx.Client) -> None:
    project = keystone.project("judged")
    reader = keystone.user("judged-reader", project, "reader")
    other = keystone.user("judged-other", project, "load-balancer_observer")
    admin = keystone.user("judged-admin", project, "admin")

    def ask(path: str, token: str | None) -> httpx.Response:
        return api.get(path, headers={"X-Auth-Token": token} if token else {})

    assert ask("/v1/instances", keystone.token(reader, project)).status_code == 200
    assert ask("/v1/quarantine", keystone.token(admin, project)).status_code == 200
    for token in (None, "made-up"):
        refused = ask("/v1/instances", token)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'
        assert refused.headers["Content-Type"] == "application/problem+json"
    assert ask("/v1/instances", keystone.token(other, project)).status_code == 403
    assert ask("/v1/quarantine", keystone.token(reader, project)).status_code == 403


def test_each_default_role_of_keystone_has_the_rights_of_its_persona(keystone: Keystone, api: httpx.Client) -> None:
    """Each user has one role; Keystone adds those that it implies."""
    project, other = keystone.project("personas"), keystone.project("personas-other")
    tokens = {
        role: keystone.token(keystone.user(f"personas-{role}", project, role), project)
        for role in ("admin", "manager", "member", "reader", "service")
    }
    tokens["stranger"] = keystone.token(keystone.user("personas-stranger", other, "manager"), other)

    def ask(role: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return api.request(method, f"/v1/{path}", json=body, headers={"X-Auth-Token": tokens[role], **headers})

    def answers(method: str, path: str, body: Any = None, **headers: str) -> list[int]:
        return [ask(role, method, path, body, **headers).status_code for role in tokens]

    vdus = {"V": {"workload": {"kind": "Pod", "name": "p"}, "initial": 1}}
    vnf = {"cluster": "edge", "namespace": "kube-system", "vnfd_id": "d", "vdus": vdus}
    sti = {"service_type": "vm", "instance_name": "one", "spec": {}}
    event = {"specversion": "1.0", "id": "1", "source": "dcm/providers/p", "type": "dcm.status.vm",
             "subject": "dcm.vm", "time": "2026-07-01T12:00:00Z", "data": {"id": "i", "status": "RUNNING"}}  # fmt: skip
    # Of admin, manager, member, reader, service, and the manager of another project.
    assert answers("POST", "vnf_instances", vnf) == [201, 403, 403, 403, 403, 403]
    assert answers("POST", "service_type_instances", sti) == [201, 201, 201, 403, 403, 201]
    assert answers("GET", "service_type_instances") == [200, 200, 200, 200, 403, 200]
    assert answers("GET", "quarantine") == [200, 403, 403, 403, 403, 403]
    assert answers("GET", "compute_nodes") == [200, 403, 403, 403, 403, 403]
    brought = answers("POST", "events", event, **{"Content-Type": "application/cloudevents+json"})
    assert brought == [200, 403, 403, 403, 200, 403]

    made = ask("admin", "POST", "vnf_instances", vnf).json()
    for role in ("service", "stranger", "reader", "member", "manager"):
        begun = ask("member", "POST", f"vnf_instances/{made['id']}/operations", {"operation": "SCALE", "holder": "lcm"})
        path = f"vnf_instances/{made['id']}/operations"
        running = ask("admin", "GET", path).json()["operations"][-1]
        assert begun.status_code == (201 if role == "service" else 409)
        ended = ask(role, "DELETE", f"{path}/{running['id']}?force=true&state=FAILED").status_code
        assert ended == {"manager": 204, "stranger": 404}.get(role, 403), role


def test_a_reader_of_the_system_sees_the_events(keystone: Keystone, api: httpx.Client) -> None:
    user = keystone.user("system-reader")
    keystone.grant(user, "reader", None)
    answer = api.get("/v1/events", headers={"X-Auth-Token": keystone.token(user, None)})
    assert answer.status_code == 200


def test_a_revoked_token_is_refused_when_its_cache_entry_ends(keystone: Keystone, api: httpx.Client) -> None:
    project = keystone.project("revoked")
    token = keystone.token(keystone.user("revoked-reader", project, "reader"), project)
    headers = {"X-Auth-Token": token}
    assert api.get("/v1/instances", headers=headers).status_code == 200
    keystone.revoke(token)
    wait_until(lambda: api.get("/v1/instances", headers=headers).status_code == 401, CACHE_SECONDS + 60, "the refusal")


def test_without_keystone_it_is_503_and_with_its_return_200(keystone: Keystone, api: httpx.Client) -> None:
    project = keystone.project("away")
    headers = {"X-Auth-Token": keystone.token(keystone.user("away-reader", project, "reader"), project)}
    keystone.kill()
    try:
        answer = api.get("/v1/instances", headers=headers)
        assert answer.status_code == 503
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert int(answer.headers["Retry-After"]) > 0
        assert "Keystone" in answer.json()["detail"]
        assert api.get("/v1/instances").status_code == 401
        assert api.get("/v1").status_code == 200
    finally:
        keystone.start()
    wait_until(lambda: api.get("/v1/instances", headers=headers).status_code == 200, what="the return")


def test_a_wrong_password_of_the_service_is_503_too(keystone: Keystone, config: Path) -> None:
    project = keystone.project("refused")
    headers = {"X-Auth-Token": keystone.token(keystone.user("refused-reader", project, "reader"), project)}
    config.write_text(config.read_text().replace("password = PASSWORD", "password = wrong"))
    with documented_api(config) as api:
        answer = api.get("/v1/instances", headers=headers)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
