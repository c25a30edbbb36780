# SPDX-License-Identifier: Apache-2.0
"""The image and the example for Kubernetes: built and rendered where the tools are there, and read everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.security import documented
from tests.source_copy import copy_source
from tests.waiting import deadline
from watcher_sync.conf import opts

_ROOT = Path(__file__).parents[2]
_CONTAINERFILE = _ROOT / "etc" / "container" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each instruction, with continued lines joined."""
    lines = (line for line in _CONTAINERFILE.read_text().splitlines() if not line.startswith("#"))
    text = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def last_stage() -> dict[str, str]:
    """Instruction -> its last arguments, in the stage that becomes the image."""
    found = instructions()
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return dict(found[start:])


def test_every_base_has_a_tag_and_nothing_is_fetched_unverified() -> None:
    bases = [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    assert all(re.fullmatch(r"python:\d+\.\d+-slim", base) for base in bases)
    assert "ADD" not in dict(instructions())
    assert not [a for name, a in instructions() if name == "RUN" and ("curl" in a or "wget" in a)]


def test_the_image_runs_as_an_ordinary_user_and_says_whether_it_is_healthy() -> None:
    stage = last_stage()
    user = stage["USER"].partition(":")[0]
    assert user.isdigit()
    assert int(user) > 0
    assert "CMD [" in stage["HEALTHCHECK"]
    assert stage["CMD"].startswith("["), "a shell would not pass on signals"
    assert stage["STOPSIGNAL"] == "SIGTERM"


def test_the_image_is_built_where_a_builder_is_there(tmp_path: Path) -> None:
    builder = next((name for name in ("podman", "docker") if _works(name)), None)
    if builder is None:
        pytest.skip("neither podman nor a docker daemon is there: the file is linted only")
    (tmp_path / "dist").mkdir()
    shutil.copy(_ROOT / "constraints.txt", tmp_path)
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist"]
    subprocess.run([*wheel, copy_source(tmp_path / "source")], check=True, timeout=deadline(300))
    subprocess.run([builder, "build", "--file", _CONTAINERFILE, "--tag", "watcher-sync:test", tmp_path], check=True)
    shown = subprocess.run(
        [builder, "run", "--rm", "watcher-sync:test", "watcher-sync-engine", "--version"],
        check=True, capture_output=True, text=True, timeout=deadline(60),
    )  # fmt: skip
    assert shown.stdout.strip()


def _works(builder: str) -> bool:
    return shutil.which(builder) is not None and not subprocess.run([builder, "info"], capture_output=True).returncode


@pytest.fixture(scope="module")
def rendered() -> list[dict[str, Any]]:
    """The resources of the example as kubectl renders them."""
    kubectl = os.environ.get("WATCHER_SYNC_TEST_KUBECTL") or shutil.which("kubectl")
    assert kubectl, "kubectl is missing: python -m tests.services.ensure installs the package kubernetes-client"
    command = [kubectl, "kustomize", str(_ROOT / "etc" / "kubernetes")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=deadline(60))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pods(resources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The specifications of all pods."""
    for resource in resources:
        if "template" in resource["spec"]:
            yield resource["spec"]["template"]["spec"]


def test_the_example_has_all_services_and_no_pod_has_more_rights_than_it_needs(rendered: list[dict[str, Any]]) -> None:
    assert sorted(f"{r['kind']} {r['metadata']['name']}" for r in rendered) == [
        "Deployment watcher-sync-api",
        "Deployment watcher-sync-engine",
        "Deployment watcher-sync-outlet",
        "Job watcher-sync-db-sync",
        "Service watcher-sync-api",
    ]
    for pod in pods(rendered):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert re.fullmatch(r"watcher-sync:\d+\.\d+\.\d+", container["image"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_ports_of_the_example_are_those_of_the_documented_options(rendered: list[dict[str, Any]]) -> None:
    options = documented.configuration("admin/containers.rst", "monitoring")
    ports = {p["containerPort"] for pod in pods(rendered) for p in pod["containers"][0].get("ports", [])}
    documented_ports = {int(port) for port in re.findall(r"port = (\d+)", options)}
    defaults = {o.default for group, found in opts.list_opts() for o in found if o.name == "port" and o.default}
    assert documented_ports < ports
    assert ports - documented_ports <= defaults
