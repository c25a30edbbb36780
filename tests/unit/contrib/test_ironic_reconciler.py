# SPDX-License-Identifier: Apache-2.0
"""The reconciler against an API that answers in pages as Ironic does."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watcher_sync_ironic.reconciler import IronicReconciler

from tests.simulated import telling
from tests.sites import Site
from tests.unit.contrib.ironic_events import KINDS, Ironic
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.reconcile.plugins import make_reconciler

_PAGE = 2


class FakeApi:
    """The collections of Ironic's API over HTTP."""

    def __init__(self) -> None:
        self.collections: dict[str, list[dict[str, Any]]] = {"nodes": [], "ports": [], "portgroups": []}
        self.status = 200
        self.asked: list[str] = []
        api = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_root = self.path.strip("/") in ("", "v1")
                if not is_root:
                    api.asked.append(f"{self.path} {self.headers['X-OpenStack-Ironic-API-Version']}")
                body = json.dumps(api.root() if is_root else api.page(self.path)).encode()
                self.send_response(200 if is_root else api.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def root(self) -> dict[str, Any]:
        links = [{"href": f"{self.url}/v1/", "rel": "self"}]
        version = {"id": "v1", "links": links, "status": "CURRENT", "min_version": "1.1", "version": "1.115"}
        return {"name": "OpenStack Ironic API", "default_version": version, "versions": [version]}

    def page(self, path: str) -> dict[str, Any]:
        parts = urllib.parse.urlsplit(path)
        query = urllib.parse.parse_qs(parts.query)
        name = parts.path.rpartition("/")[2]
        found = self.collections[name] if query.get("detail") == ["true"] else []
        ids = [each["uuid"] for each in found]
        begin = ids.index(query["marker"][0]) + 1 if "marker" in query else 0
        more = {"next": f"{self.url}/v1/{name}?marker={ids[begin + _PAGE - 1]}"} if len(ids) > begin + _PAGE else {}
        return {name: found[begin : begin + _PAGE], **more}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi()
    ironic = Ironic()
    for number in range(5):
        event = ironic.node("create.end", saved=None, uuid=f"node-{number}", name=f"n{number}", instance_uuid="vm")
        made.collections["nodes"].append(event["payload"]["ironic_object.data"])
    port = ironic.event("port", "create.end", saved=None, uuid="port-1", node_uuid="node-1")
    made.collections["ports"].append(port["payload"]["ironic_object.data"])
    yield made
    made.close()


Make = Callable[..., IronicReconciler]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    kinds = builtin_kinds()
    for cls in KINDS:
        kinds.add(cls)
    made = Site(tmp_path, kinds=kinds)
    yield made
    made.close()


@pytest.fixture
def make(site: Site) -> Make:
    def made(**options: Any) -> IronicReconciler:
        site.conf.register_opts(IronicReconciler.options, group="reconciler_ironic")
        for name, value in options.items():
            site.conf.set_override(name, value, group="reconciler_ironic")
        context = make_context(site.conf, site.store, telling(site.store.kinds), lambda: site.model)
        reconciler = make_reconciler("ironic", IronicReconciler, site.conf, context)
        assert isinstance(reconciler, IronicReconciler)
        return reconciler

    return made


def run(reconciler: IronicReconciler) -> None:
    reconciler.run("ironic", deadline=time.monotonic() + deadline(60))


def test_all_pages_of_all_collections_become_entities(site: Site, api: FakeApi, make: Make) -> None:
    run(make(auth_type="none", endpoint=api.url))
    nodes = {row["id"]: row for row in site.model.dump("baremetal_node")}
    assert sorted(nodes) == [f"node-{number}" for number in range(5)]
    assert nodes["node-3"]["name"] == "n3"
    assert nodes["node-3"]["instance_id"] == "vm"
    assert [row["node_id"] for row in site.model.dump("baremetal_port")] == ["node-1"]
    assert len(api.asked) == 5
    assert all(asked.endswith(" 1.65") for asked in api.asked)


def test_what_is_listed_no_more_is_deleted(site: Site, api: FakeApi, make: Make) -> None:
    reconciler = make(auth_type="none", endpoint=api.url)
    run(reconciler)
    del api.collections["nodes"][4]
    run(reconciler)
    assert len(list(site.model.dump("baremetal_node"))) == 4


@pytest.mark.parametrize("status", [401, 500])
def test_an_api_that_refuses_changes_nothing(site: Site, api: FakeApi, make: Make, status: int) -> None:
    reconciler = make(auth_type="none", endpoint=api.url)
    run(reconciler)
    api.collections["nodes"].clear()
    api.status = status
    with pytest.raises(ReconcileError, match=f"/nodes: {status}"):
        run(reconciler)
    assert len(list(site.model.dump("baremetal_node"))) == 5


def test_an_answer_without_a_field_fails_the_listing_by_name(api: FakeApi, make: Make) -> None:
    del api.collections["nodes"][0]["fault"]
    with pytest.raises(ReconcileError, match="`fault`"):
        run(make(auth_type="none", endpoint=api.url))


def test_without_an_account_nothing_is_listed(make: Make) -> None:
    assert make().scopes() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auth_type": "password"}, "auth_url"),
        ({"auth_type": "none", "cloud": "x"}, "are both set"),
        ({"cloud": "no-such-cloud"}, "no-such-cloud"),
    ],
)
def test_an_account_that_is_wrong_is_named(make: Make, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)
