# SPDX-License-Identifier: Apache-2.0
"""``provider binding list`` and ``delete``."""

from __future__ import annotations

import json

from tests.unit.extensions.vnf.api.test_instances import written
from watcher_sync.client.shell import run
from watcher_sync.model.changes import Upsert


def test_bindings_are_listed_and_reset_by_commands(client, url, cycle, capsys, monkeypatch):
    monkeypatch.setenv("WATCHER_SYNC_ENDPOINT", url)
    for number, source in enumerate(("kubevirt.localhost", "dcm/providers/acm")):
        fields = {"provider_name": "kubevirt-sp", "source": source}
        written(cycle, Upsert("provider_binding", f"b-{number}", "1", {"state": fields}))
    assert run(["provider", "binding", "list", "--filter", "source=kubevirt.localhost", "-f", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed == {"ID": "b-0", "Provider Name": "kubevirt-sp", "Source": "kubevirt.localhost", "Seq": 1}
    assert run(["provider", "binding", "delete", "b-0", "b-0", "gone"]) == 1
    assert capsys.readouterr().err == "error: there is no provider_binding with the id gone\n"
    assert [b["id"] for b in client.entities("provider_binding")] == ["b-1"]
