# SPDX-License-Identifier: Apache-2.0
"""The distributions for Cinder and Ironic work as their READMEs say, installed as wheels beside the package.

The wheel of the plugin for Tempest is complete.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.functional.test_plugin_example import Installed, Printed
from tests.source_copy import ROOT
from tests.waiting import deadline

CONTRIB = ROOT / "contrib"
RECORDINGS = ROOT / "tests" / "unit" / "contrib" / "recordings"
PATTERNS = ("volume.*", "snapshot.*", "capacity.pool", "baremetal.node.create.end")


def truth() -> Mapping[str, Mapping[str, Any]]:
    """Kind -> id -> fields, as the APIs answered at the end."""
    of_cinder = json.loads((RECORDINGS / "cinder.truth.json").read_text())["truth"]
    last = gzip.decompress((RECORDINGS / "ironic.truth.jsonl.gz").read_bytes()).splitlines()[-1]
    return {**of_cinder, **json.loads(last)["truth"]}


KINDS = ("volume", "volume_snapshot", "baremetal_node", "baremetal_port", "baremetal_portgroup")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What the installed commands print, one after the other."""
    installed = Installed(
        tmp_path_factory.mktemp("contrib"), CONTRIB / "watcher-sync-cinder", CONTRIB / "watcher-sync-ironic"
    )
    installed.install()
    installed.configure("[reconciler_ironic]\nauth_type = none\nendpoint = http://127.0.0.1:9/v1\n")
    installed.configure("[reconciler_cinder]\ncloud = north\n")
    recordings = {}
    for name in ("cinder", "ironic"):
        recordings[name] = installed.folder / f"{name}.jsonl"
        recordings[name].write_bytes(gzip.decompress((RECORDINGS / f"{name}.jsonl.gz").read_bytes()))
    return installed.manage_each(
        db_sync=["db_sync"],
        handlers=["handlers"],
        cinder=["replay", "-f", "json", recordings["cinder"]],
        ironic=["replay", "-f", "json", recordings["ironic"]],
        **{kind: ["model", "dump", "--kind", kind] for kind in KINDS},
    )


def test_the_patterns_are_in_the_dispatch_table(printed: Printed) -> None:
    assert all(pattern in printed["handlers"] for pattern in PATTERNS)


@pytest.mark.parametrize("service", ["cinder", "ironic"])
def test_a_recording_of_a_real_service_is_replayed_without_a_refusal(printed: Printed, service: str) -> None:
    counts = json.loads(printed[service])
    assert counts["read"] > 100
    assert (counts["parked"], counts["quarantined"]) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_has_what_the_api_answered_at_the_end(printed: Printed, kind: str) -> None:
    assert {json.loads(line)["id"] for line in printed[kind].splitlines()} == truth()[kind].keys()


def test_the_wheel_of_the_plugin_for_tempest_has_its_entry_point_and_all_modules(tmp_path: Path) -> None:
    name, package = "watcher-sync-tempest-plugin", "watcher_sync_tempest_plugin"
    # A build writes into the source.
    source = shutil.copytree(CONTRIB / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    modules = {str(path.relative_to(source)) for path in (source / package).rglob("*.py")}
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*wheel, str(source)], check=True, timeout=deadline(60))
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as file:
        assert {each for each in file.namelist() if each.endswith(".py")} == modules
        (points,) = (each for each in file.namelist() if each.endswith("entry_points.txt"))
        assert file.read(points).decode().startswith(f"[tempest.test_plugins]\nwatcher_sync = {package}.plugin:")
