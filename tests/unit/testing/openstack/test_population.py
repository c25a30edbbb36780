# SPDX-License-Identifier: Apache-2.0
"""Many hosts and servers at once, and the cloud as a process of its own."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import openstack
import pytest
from openstack.config import loader

from tests.waiting import deadline
from watcher_sync.testing.openstack import FakeOpenStack, Inventory, server_views
from watcher_sync.testing.openstack.population import populate


def test_one_seed_is_one_population() -> None:
    first, second, other = (Inventory(seed=seed) for seed in (1, 1, 2))
    for inventory, seed in ((first, 1), (second, 1), (other, 2)):
        populate(inventory, hosts=6, servers=60, seed=seed)
    assert list(first.servers) == list(second.servers)
    assert first.servers.keys() != other.servers.keys()
    assert {first.zone_of(name) for name in first.hosts} == {"az-0", "az-1", "az-2"}


@pytest.mark.slow
def test_a_page_after_a_change_encodes_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    original = server_views.document

    def counted(server: server_views.Server, *more: object) -> dict[str, object]:
        encoded.append(server.id)
        return original(server, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(server_views, "document", counted)
    inventory = Inventory()
    populate(inventory, hosts=3, servers=300)
    with FakeOpenStack(inventory) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        for changed in ([*inventory.servers], [], [next(iter(inventory.servers))]):
            encoded.clear()
            for server_id in changed[:1]:
                inventory.update_server(server_id, task_state="pausing")
            assert len(list(connection.compute.servers(all_projects=True))) == 300
            assert sorted(encoded) == sorted(changed)


def test_it_runs_alone_and_writes_a_clouds_yaml(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clouds.yaml"
    command = [sys.executable, "-m", "watcher_sync.testing.openstack", "--servers", "7", "--clouds-yaml", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
            with openstack.connect(cloud="fake") as connection:
                assert connection.config.get_auth_args()["auth_url"] == url
                assert len(list(connection.compute.servers(all_projects=True))) == 7
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(deadline(60)) == 0
