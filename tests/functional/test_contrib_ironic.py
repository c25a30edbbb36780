# SPDX-License-Identifier: Apache-2.0
"""The plugin for Ironic works as its README says, installed as a wheel beside the package."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.functional.test_plugin_example import Installed, Printed
from tests.source_copy import ROOT

IRONIC = ROOT / "contrib" / "watcher-sync-ironic"
RECORDINGS = ROOT / "tests" / "unit" / "contrib" / "recordings"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What the installed commands print, one after the other."""
    installed = Installed(tmp_path_factory.mktemp("ironic"), IRONIC)
    installed.install()
    recording = Path(installed.folder, "ironic.jsonl")
    recording.write_bytes(gzip.decompress((RECORDINGS / "ironic.jsonl.gz").read_bytes()))
    installed.configure("[reconciler_ironic]\nauth_type = none\nendpoint = http://127.0.0.1:9\n")
    installed.manage("db_sync")
    return installed.manage_each(
        handlers=["handlers"],
        replay=["replay", "-f", "json", recording],
        baremetal_node=["model", "dump", "--kind", "baremetal_node"],
        baremetal_port=["model", "dump", "--kind", "baremetal_port"],
        baremetal_portgroup=["model", "dump", "--kind", "baremetal_portgroup"],
    )


def test_the_replay_of_a_recording_quarantines_nothing(printed: Printed) -> None:
    counts = json.loads(printed["replay"])
    assert counts["read"] > 100
    assert (counts["parked"], counts["quarantined"]) == (0, 0)
    assert "baremetal.node.create.end" in printed["handlers"]


@pytest.mark.parametrize("kind", ["baremetal_node", "baremetal_port", "baremetal_portgroup"])
def test_the_model_has_what_the_api_answered_at_the_end(printed: Printed, kind: str) -> None:
    truth = json.loads(gzip.decompress((RECORDINGS / "ironic.truth.jsonl.gz").read_bytes()).splitlines()[-1])["truth"]
    rows = {row["id"]: row for row in map(json.loads, printed[kind].splitlines())}
    assert rows.keys() == truth[kind].keys()
    for entity_id, fields in truth[kind].items():
        assert {name: rows[entity_id][name] for name in fields} == fields
