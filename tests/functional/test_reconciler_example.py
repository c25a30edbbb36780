# SPDX-License-Identifier: Apache-2.0
"""The example reconciler works as its README says, installed beside the package and the example plugin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.test_plugin_example import PLUGIN, Installed

RECONCILER = PLUGIN.with_name("watcher-sync-example-reconciler")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("reconciler"), PLUGIN, RECONCILER)
    installed.install()
    with installed.config.open("a") as config:
        config.write(f"[reconciler_racks]\npath = {installed.folder / 'racks.json'}\n")
        config.write("[reconcile]\nmax_delete_percent = 50\n")
    inventory = {
        "r1": {"room": "1", "power": "on", "watts": 900},
        "r9": {"room": "2", "power": "off"},
    }
    (installed.folder / "racks.json").write_text(json.dumps(inventory))
    installed.manage("db_sync")
    return installed


def test_an_installed_reconciler_finds_and_repairs_what_events_lost(installed: Installed) -> None:
    event = {"specversion": "1.0", "id": "a-99", "source": "/rooms/1", "type": "rack.power.on", "subject": "r9"}
    event |= {"time": "2026-03-02T08:00:00Z", "data": {"rack": "r9", "sequence": 0, "room": "3", "watts": 700}}
    (installed.folder / "more.jsonl").write_text(json.dumps(event))
    found = installed.manage_each(
        events=["replay", PLUGIN / "events.jsonl"],
        dry=["reconcile", "--dry-run", "inventory"],
        before=["model", "dump", "--kind", "rack"],
        repair=["reconcile", "inventory"],
        after=["model", "dump", "--kind", "rack"],
        again=["reconcile", "inventory"],
        late=["replay", installed.folder / "more.jsonl"],
        end=["model", "dump", "--kind", "rack"],
    )

    def racks(text: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in text.splitlines()]

    assert [rack["id"] for rack in racks(found["before"])] == ["r1", "r2"]
    assert racks(found["after"]) == [
        {"id": "r1", "room": "1", "power": "on", "watts": 900},
        {"id": "r9", "room": "2", "power": "off", "watts": None},
    ]
    assert "r2" in found["dry"]
    # The first event of a rack is newer than what the listing said of it.
    assert racks(found["end"])[1] == {"id": "r9", "room": "3", "power": "on", "watts": 700}
