# SPDX-License-Identifier: Apache-2.0
"""``python comparing.py``: compares Watcher's own model of a cloud with that of watcher_sync.

It reads a JSON object from stdin:

* ``login``: keystoneauth's options of an administrator.
* ``endpoint``: the URL of an API of watcher_sync without tokens.
* ``nova_version``: a microversion.

It writes a JSON object to stdout. This has both models with all attributes, and the action plans of strategies on both.
It also has the requests and the seconds that each model took.

Nothing of Watcher is replaced. The requests are counted where the library ``requests`` sends them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import urllib.parse
from typing import Any

import auditing
import requests
from oslo_config import cfg
from watcher import conf as _registered  # noqa: F401 - registers Watcher's options
from watcher.decision_engine.loading import default
from watcher.decision_engine.model import model_root
from watcher.decision_engine.model.collector.nova import NovaClusterDataModelCollector

STRATEGIES = ("workload_stabilization", "vm_workload_consolidation")

_PARAMETERS = {
    # Low thresholds, so that a small cloud needs actions, and no choice at random.
    "workload_stabilization": {
        "host_choice": "fullsearch",
        "thresholds": {"instance_cpu_usage": 0.01, "instance_ram_usage": 0.01},
        "metrics": ["instance_cpu_usage", "instance_ram_usage"],
    }
}

SENT: list[tuple[str, str]] = []
"""Method and URL of each request of this process."""


def _count_requests() -> None:
    """Count what every session of this process sends, and send it as always."""
    send = requests.adapters.HTTPAdapter.send

    def counted(self: Any, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        SENT.append((str(request.method), str(request.url)))
        return send(self, request, *arguments, **options)

    requests.adapters.HTTPAdapter.send = counted  # type: ignore[method-assign]


def main() -> int:
    """Compare, and write the result."""
    given = json.load(sys.stdin)
    _count_requests()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(_configuration(given))
        file.flush()
        cfg.CONF([], project="watcher", default_config_files=[file.name], default_config_dirs=[])
        result = _compare()
    json.dump(result, sys.stdout, default=str)
    return 0


def _compare() -> dict[str, Any]:
    theirs = _timed("compute", NovaClusterDataModelCollector)
    ours = _timed("watcher_sync", None)
    return {
        "theirs": theirs[0],
        "ours": ours[0],
        "plans": {
            name: [_plan(name, model) for model in (theirs[1], ours[1])] for name in STRATEGIES
        },
    }  # fmt: skip


def _configuration(given: dict[str, Any]) -> str:
    """A watcher.conf, as an operator writes it."""
    login = dict(given["login"])
    region = login.pop("region_name")
    return "\n".join(
        [
            "[watcher_clients_auth]",
            *(f"{name} = {value}" for name, value in login.items()),
            "[compute_model]",
            "enable_extended_attributes = true",
            "[placement]",
            f"region_name = {region}",
            "[nova]",
            f"region_name = {region}",
            f"api_version = {given['nova_version']}",
            f"[{auditing.NAMESPACE}.watcher_sync]",
            "auth_strategy = noauth",
            f"endpoint = {given['endpoint']}",
        ]
    )


def _timed(name: str, known: Any) -> tuple[dict[str, Any], model_root.ModelRoot]:
    """What a collector needs to build the model of the whole cloud, once it has its token and endpoints."""
    loader = default.ClusterDataModelCollectorLoader()
    collector = loader.load(name)
    assert known is None or isinstance(collector, known), collector
    collector.get_audit_scope_handler(audit_scope=[])
    SENT.clear()
    began = time.monotonic()
    model = collector.execute()
    seconds = time.monotonic() - began
    asked = [(method, urllib.parse.urlsplit(url).path) for method, url in SENT]
    figures = {"seconds": seconds, "requests": len(asked), "asked": asked, "model": auditing.described(model)}
    return figures, model


def _plan(name: str, model: model_root.ModelRoot) -> list[Any]:
    return auditing.plan(name, _in_order(model), **_PARAMETERS.get(name, {}))


def _in_order(model: model_root.ModelRoot) -> model_root.ModelRoot:
    """The same elements in the order of their ids. Watcher adds hosts in the order in which its threads end."""
    ordered = model_root.ModelRoot()
    for _, node in sorted(model.get_all_compute_nodes().items()):
        ordered.add_node(node)
    for uuid, instance in sorted(model.get_all_instances().items()):
        ordered.add_instance(instance)
        ordered.map_instance(instance, model.get_node_by_instance_uuid(uuid))
    return ordered


if __name__ == "__main__":
    sys.exit(main())
