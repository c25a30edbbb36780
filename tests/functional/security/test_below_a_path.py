# SPDX-License-Identifier: Apache-2.0
"""The API below a path, as the documentation serves it: behind nginx, which removes the path, and by gunicorn alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.executables import BIN
from tests.functional.security import documented
from tests.functional.security.serving import documented_api, nginx_with
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services.servers import free_port
from tests.waiting import deadline
from watcher_sync.testing.kinds import builtin_kinds

STI = {"service_type": "vm", "spec": {"cpu": 2}}
IDS = ("a:b", "a~b", "one", "x@y")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of an API that trusts the proxy of this machine."""
    url = f"sqlite:///{tmp_path / 'ws.sqlite'}"
    migrate(opened(url, builtin_kinds())).database.dispose()
    path = tmp_path / "watcher-sync.conf"
    path.write_text(f"[database]\nconnection = {url}\n[api]\nauth_strategy = noauth\ntrusted_proxies = 127.0.0.1\n")
    return path


@pytest.fixture
def behind_nginx(config: Path, tmp_path: Path) -> Iterator[str]:
    """The root of the API below the path of the documented location."""
    with documented_api(config) as api:
        port = free_port()
        location = documented.block("admin/api.rst", "location /watcher/")
        location = location.replace("http://watcher-sync-api/", f"{api.base_url}/").replace("//;", "/;")
        server = f"server {{ listen 127.0.0.1:{port}; {location} }}"
        root = f"http://localhost:{port}/watcher"
        with httpx.Client(base_url=root) as client, nginx_with(server, tmp_path, client):
            yield root


@pytest.fixture
def by_gunicorn(config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The root of the API below the path of gunicorn's environment."""
    monkeypatch.setenv("SCRIPT_NAME", "/watcher")
    with documented_api(config, below="/watcher") as api:
        yield str(api.base_url).rstrip("/")


@pytest.mark.parametrize("served", ["behind_nginx", "by_gunicorn"])
def test_every_link_leads_a_client_on(request: pytest.FixtureRequest, served: str) -> None:
    root: str = request.getfixturevalue(served)
    with httpx.Client(base_url=root, timeout=deadline(30)) as client:
        made = []
        for entity_id in IDS:
            answer = client.post(
                "/v1/service_type_instances", json={**STI, "id": entity_id, "instance_name": entity_id}
            )
            assert answer.status_code == 201, answer.text
            made.append(client.get(str(answer.request.url.join(answer.headers["Location"]))).json()["id"])
        assert made == list(IDS)
        seen, answer = [], client.get("/v1/service_type_instances?limit=2")
        while True:
            seen += [each["id"] for each in answer.json()["service_type_instances"]]
            if answer.json()["next"] is None:
                break
            answer = client.get(answer.url.join(answer.json()["next"]))
        assert sorted(seen) == sorted(IDS)
        version = client.get("/v1").json()["version"]
        for link in (*version["kinds"].values(), *(each["href"] for each in version["links"])):
            assert client.get(answer.url.join(link)).status_code in (200, 405), link
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/watcher"}]
        page = client.get("/", headers={"Accept": "text/html"})
        assert client.get(page.url.join("static/app.js")).status_code == 200


@pytest.mark.parametrize("served", ["behind_nginx", "by_gunicorn"])
def test_the_page_finds_its_files_from_an_address_without_the_last_slash(
    request: pytest.FixtureRequest, served: str
) -> None:
    root: str = request.getfixturevalue(served)
    with httpx.Client(follow_redirects=True, timeout=deadline(30)) as client:
        page = client.get(root, headers={"Accept": "text/html"})
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert client.get(page.url.join("static/app.js")).status_code == 200


@pytest.mark.parametrize("served", ["behind_nginx", "by_gunicorn"])
def test_the_commands_work_below_a_path(request: pytest.FixtureRequest, served: str) -> None:
    root: str = request.getfixturevalue(served)
    with httpx.Client(base_url=root, timeout=deadline(30)) as client:
        for number in range(3):
            body = {**STI, "id": f"i{number}", "instance_name": f"n{number}"}
            assert client.post("/v1/service_type_instances", json=body).status_code == 201
    environment = {**os.environ, "OS_AUTH_TYPE": "none", "OS_ENDPOINT": root}

    def ask(*words: str) -> object:
        command = [BIN / "watcher-sync", *words, "-f", "json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=deadline(60))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = ask("entity", "list", "service_type_instance", "--limit", "2")
    assert [each["ID"] for each in listed] == ["i0", "i1"]  # type: ignore[index,attr-defined,union-attr]
    assert ask("entity", "show", "service_type_instance", "n2")["id"] == "i2"  # type: ignore[index]
