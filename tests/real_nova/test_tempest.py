# SPDX-License-Identifier: Apache-2.0
"""Tempest runs the plugin of ``contrib`` against an installation that follows the cloud and a simulated cluster.

The API, the engine and the outlet are processes. Keystone checks the tokens, and its catalog has the API.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.security import keystone
from tests.functional.security.serving import documented_api
from tests.functional.webhooks.driving import OPTIONS, outlet
from tests.real_nova.cloud import Cloud
from tests.real_nova.installation import Programs, ensure_programs
from tests.real_nova.modes import BOTH, SOURCES, Follower
from tests.real_nova.settings import PASSWORD
from tests.source_copy import ROOT
from tests.waiting import deadline
from watcher_sync.testing.kubernetes import KubernetesServer

pytestmark = pytest.mark.timeout(1200)

PLUGIN = "watcher-sync-tempest-plugin"
CLUSTER = "edge"

_CONF = """\
[DEFAULT]
log_file = {folder}/tempest.log
[auth]
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
create_isolated_networks = false
[identity]
uri_v3 = {keystone}/v3
region = RegionOne
[compute]
flavor_ref = {flavor}
image_ref = {image}
build_interval = 1
[service_available]
cinder = false
neutron = false
swift = false
[oslo_concurrency]
lock_path = {folder}/locks
[watcher_sync]
build_timeout = {seconds:.0f}
callback_host = 127.0.0.1
kubernetes_url = {kubernetes}
kubernetes_cluster = {cluster}
"""


@pytest.fixture(scope="module")
def tempest() -> Programs:
    """Tempest with the plugin, in an environment without this project."""
    requirements = Path(__file__).with_name("tempest-requirements.txt")
    programs = ensure_programs("tempest", requirements, variable="WATCHER_SYNC_TEST_TEMPEST")
    subprocess.run([programs.python, "-m", "tests.install_contrib", PLUGIN], cwd=ROOT, check=True)
    return programs


@pytest.fixture
def cluster() -> Iterator[KubernetesServer]:
    """A simulated cluster, whose controllers run."""
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.cluster.run()
        yield server
        server.cluster.stop()


@pytest.fixture
def registered(cloud: Cloud, cluster: KubernetesServer, tmp_path: Path) -> Iterator[None]:
    """An installation with all its processes, which is in the catalog of the cloud."""
    source = {
        "engine.enabled_sources": ",".join((*SOURCES, CLUSTER)),
        f"source_{CLUSTER}.driver": "kubernetes",
        f"source_{CLUSTER}.kubeconfig": cluster.kubeconfig(tmp_path / "kubeconfig"),
        f"source_{CLUSTER}.cluster": CLUSTER,
    }
    follower = Follower(BOTH, cloud, tmp_path / "followed", name="tempest", options={**OPTIONS, **source})
    try:
        follower.bind(cloud)
        follower.start()
        follower.reconcile()
        outlet(follower.installation, follower.config)
        config = follower.installation.config()
        url = f"{cloud.site.url('keystone')}/v3"
        with config.open("a") as file:
            file.write(keystone.configuration(url))
        with documented_api(config) as api:
            keystone.register(cloud.openrc, str(api.base_url).rstrip("/"))
            yield
    finally:
        follower.stop()


def test_all_tests_of_the_plugin_pass(
    tempest: Programs,
    cloud: Cloud,
    cluster: KubernetesServer,
    registered: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cloud.seeded is not None
    config = tmp_path / "tempest.conf"
    config.write_text(
        _CONF.format(
            folder=tmp_path,
            password=PASSWORD,
            keystone=cloud.site.url("keystone"),
            flavor=cloud.seeded.flavors["small"],
            image=cloud.seeded.images["first"],
            seconds=deadline(60),
            kubernetes=cluster.url,
            cluster=CLUSTER,
        )
    )
    command = [tempest.path("tempest"), "run", "--config-file", str(config), "--regex", "watcher_sync_tempest_plugin"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OS_"))}
    environment = {**kept, "HOME": str(tmp_path), "OS_TEST_TIMEOUT": f"{deadline(300):.0f}"}
    done = subprocess.run(
        [*command, "--concurrency", "2"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline(900),
        check=False,
    )
    with capsys.disabled():
        print(f"\n{done.stdout[done.stdout.find('Totals') :]}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    counts = {name: int(number) for name, number in re.findall(r"^ - (\w[\w ]*): (\d+)$", done.stdout, re.MULTILINE)}
    listed = subprocess.run([*command, "--list-tests"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    tests = [line for line in listed.stdout.splitlines() if line.startswith("watcher_sync_tempest_plugin.")]
    assert len(tests) >= 14
    assert (counts["Passed"], counts["Skipped"], counts["Failed"]) == (len(tests), 0, 0)
