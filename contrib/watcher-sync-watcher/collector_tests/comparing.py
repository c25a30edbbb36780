# SPDX-License-Identifier: Apache-2.0
"""``python comparing.py``: compares a model that Watcher builds itself with that of watcher_sync.

It reads a JSON object from stdin:

* ``compared``: the collector of Watcher: ``compute``, ``storage`` or ``baremetal``.
* ``login``: keystoneauth's options of an administrator.
* ``endpoint``: the URL of an API of watcher_sync without tokens.
* ``options``: section -> options of watcher.conf.
* ``strategies``: strategy -> its parameters.

It writes a JSON object to stdout: both models with all attributes, and the action plans of strategies on both. It also
has the requests and the seconds that each took.

The requests are counted where the library ``requests`` sends them. Nothing of Watcher is replaced, except what fails in
its bare-metal builder.
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
from watcher.common import exception, ironic_helper, utils
from watcher.decision_engine.loading import default
from watcher.decision_engine.model import model_root
from watcher.decision_engine.model.collector import ironic

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
        result = _compare(given["compared"], given["strategies"])
    json.dump(result, sys.stdout, default=str)
    return 0


def _compare(name: str, strategies: dict[str, Any]) -> dict[str, Any]:
    known = default.ClusterDataModelCollectorLoader().load(name)
    assert type(known).__module__.startswith("watcher."), known
    unmended = "" if name != "baremetal" else _mended(known)
    theirs, their_model = _timed(known)
    suffix = "" if name == "compute" else f"_{name}"
    ours, our_model = _timed(default.ClusterDataModelCollectorLoader().load(f"watcher_sync{suffix}"))
    models = (their_model, our_model)
    plans = {each: [_plan(each, name, model, values) for model in models] for each, values in strategies.items()}
    return {"theirs": theirs, "ours": ours, "unmended": unmended, "plans": plans}


def _configuration(given: dict[str, Any]) -> str:
    """A watcher.conf, as an operator writes it."""
    login = dict(given["login"])
    region = {"region_name": login.pop("region_name", "")}
    sections = {
        "watcher_clients_auth": login,
        **{name: region | values for name, values in given["options"].items()},
        f"{auditing.NAMESPACE}.watcher_sync": {"auth_strategy": "noauth", "endpoint": given["endpoint"]},
    }
    lines = [[f"[{name}]", *(f"{key} = {value}" for key, value in each.items())] for name, each in sections.items()]
    return "\n".join(line for section in lines for line in section)


def _mended(collector: Any) -> str:
    """Mend Watcher's bare-metal builder.

    :returns: how it fails before; empty: it does not.
    """
    collector.get_audit_scope_handler(audit_scope=[])
    failure = ""
    try:
        collector.execute()
    except exception.ClusterDataModelCollectionError as exc:
        failure = repr(exc.__cause__)
    builder = ironic.BareMetalModelBuilder
    build = builder.build_ironic_node

    def built(self: Any, node: Any) -> Any:
        mended = {"extra": utils.Struct(node.extra), "maintenance_reason": node.maintenance_reason or ""}
        return build(self, utils.Struct(node.to_dict() | mended))

    builder.build_ironic_node = built
    ironic_helper.IronicHelper.get_ironic_node_list = lambda self: self.ironic.node.list(detail=True)
    return failure


def _timed(collector: Any) -> tuple[dict[str, Any], Any]:
    """What a collector needs to build the model of the whole cloud, once it has its token and endpoints."""
    collector.get_audit_scope_handler(audit_scope=[])
    SENT.clear()
    began = time.monotonic()
    model = collector.execute()
    seconds = time.monotonic() - began
    asked = [(method, urllib.parse.urlsplit(url).path) for method, url in SENT]
    figures = {"seconds": seconds, "requests": len(asked), "asked": asked, "model": auditing.described(model)}
    return figures, model


def _plan(strategy: str, name: str, model: Any, parameters: dict[str, Any]) -> list[Any]:
    given = {"compute": model_root.ModelRoot(), name: _in_order(model) if name == "compute" else model}
    return auditing.plan(strategy, given, **parameters)


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
