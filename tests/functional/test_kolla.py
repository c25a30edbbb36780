# SPDX-License-Identifier: Apache-2.0
"""The templates of ``contrib`` for Kolla, rendered by kolla-build for each of its distributions. No image is built."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.functional.executables import BIN
from tests.source_copy import ROOT
from tests.waiting import deadline

CONTRIB = ROOT / "contrib" / "kolla"
BOOTSTRAP = CONTRIB / "docker" / "watcher-sync" / "watcher-sync-api" / "extend_start.sh"
SERVICES = ("watcher-sync-api", "watcher-sync-engine", "watcher-sync-outlet")

pytestmark = pytest.mark.rare


@pytest.fixture(scope="module", params=["debian", "rocky", "ubuntu"])
def rendered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the rendered files, with those of Kolla's own images."""
    folder = tmp_path_factory.mktemp(request.param)
    command = [
        BIN / "kolla-build", "--template-only", "--base", request.param, "--work-dir", folder,
        "--config-file", CONTRIB / "kolla-build.conf", "--docker-dir", CONTRIB / "docker", "^watcher-sync",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=deadline(120))
    assert done.returncode == 0, done.stderr
    return folder / "docker"


def instructions(file: Path) -> list[tuple[str, str]]:
    """Name and arguments of each instruction, with continued lines joined."""
    lines = file.read_text().replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def image_of(folder: Path, name: str) -> list[tuple[str, str]]:
    return instructions(folder / "watcher-sync" / name / "Dockerfile")


@pytest.mark.parametrize("name", ["watcher-sync-base", *SERVICES])
def test_every_image_is_made_of_known_instructions_a_parent_and_files_that_are_there(rendered: Path, name: str) -> None:
    found = image_of(rendered, name)
    assert {instruction for instruction, _ in found} <= {"FROM", "LABEL", "RUN", "ADD", "COPY", "USER"}
    parent = re.fullmatch(r"kolla/([a-z-]+):\S+", dict(found)["FROM"])
    assert parent is not None
    assert parent[1] == ("openstack-base" if name == "watcher-sync-base" else "watcher-sync-base")
    assert list(rendered.rglob(f"{parent[1]}/Dockerfile"))
    sources = [arguments.split()[0] for instruction, arguments in found if instruction == "COPY"]
    assert [s for s in sources if not (rendered / "watcher-sync" / name / s).is_file()] == []
    assert [arguments for instruction, arguments in found if instruction == "ADD"] == (
        ["watcher-sync-base-archive /watcher-sync-base-source"] if name == "watcher-sync-base" else []
    )


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_as_the_user_that_the_base_has(rendered: Path, name: str) -> None:
    assert image_of(rendered, name)[-1] == ("USER", "watcher-sync")
    base = (rendered / "base" / "Dockerfile").read_text()
    assert re.search(r"useradd .*--uid 8790 --gid 8790 watcher-sync\b", base)


@pytest.mark.parametrize("name", SERVICES)
def test_the_commands_are_installed_and_kolla_accepts_the_files(name: str) -> None:
    config = json.loads((CONTRIB / "config" / f"{name}.json").read_text())
    installed = {entry.name for entry in importlib.metadata.entry_points(group="console_scripts")}
    assert config["command"].split()[0] in installed
    path = Path(str(importlib.resources.files("kolla"))) / "docker" / "base" / "set_configs.py"
    spec = importlib.util.spec_from_file_location("set_configs", path)
    assert spec is not None
    assert spec.loader is not None
    set_configs: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(set_configs)
    set_configs.validate_config(config)
    assert {file["perm"] for file in config["config_files"]} == {"0640"}


@pytest.mark.parametrize("variable", ["KOLLA_BOOTSTRAP", "KOLLA_UPGRADE"])
def test_the_bootstrap_makes_the_schema_and_ends(tmp_path: Path, variable: str) -> None:
    done = bootstrap(tmp_path, {variable: ""})
    assert (done.returncode, done.stdout) == (0, "The schema is at revision 0001.\n"), done.stderr
    again = bootstrap(tmp_path, {"KOLLA_FINISH_UPGRADE": ""})
    assert again.returncode == 0
    assert "service" not in again.stdout


def test_without_a_variable_of_kolla_the_service_starts(tmp_path: Path) -> None:
    assert bootstrap(tmp_path, {}).stdout == "service\n"


def test_a_failed_bootstrap_is_a_failed_container(tmp_path: Path) -> None:
    (tmp_path / "watcher-sync.conf").write_text("[database]\nconnection = nonsense\n")
    done = bootstrap(tmp_path, {"KOLLA_BOOTSTRAP": ""})
    assert done.returncode != 0
    assert done.stdout == ""


def bootstrap(folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Read the script as kolla_start does, which then starts the service."""
    config = folder / "watcher-sync.conf"
    if not config.exists():
        config.write_text(f"[database]\nconnection = sqlite:///{folder}/watcher-sync.sqlite\n")
    text = BOOTSTRAP.read_text()
    assert "/etc/watcher-sync/" in text
    (folder / "extend_start.sh").write_text(text.replace("/etc/watcher-sync/", f"{folder}/"))
    start = "set -o errexit -o pipefail -o nounset; . ./extend_start.sh; echo service"
    return subprocess.run(
        ["bash", "-c", start], cwd=folder, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables},
        capture_output=True, text=True, check=False, timeout=deadline(120),
    )  # fmt: skip
