# SPDX-License-Identifier: Apache-2.0
"""The same commands under ``openstack``."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from tests.functional.client.conftest import Site, run
from watcher_sync.client.shell import commands


def test_the_commands_run_with_openstacks_own_options(site: Site) -> None:
    options = ("--os-auth-type", "none", "--os-endpoint", site.url)
    done = run("openstack", *options, "watcher-sync", "entity", "list", "rack")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there is no kind 'rack'; the server has aggregate" in done.stderr


def test_the_endpoint_may_be_named_apart_from_the_credentials(site: Site) -> None:
    options = ("--os-auth-type", "none", "--os-endpoint", "http://127.0.0.1:1", "--os-watcher-sync-endpoint", site.url)
    done = run("openstack", *options, "watcher-sync", "entity", "list", "compute-node", "-f", "json", "--fields", "id")
    assert done.returncode == 0, done.stderr
    nodes = [row["id"] for row in site.cycle.model.snapshot().dump("compute_node")]
    assert [row["ID"] for row in json.loads(done.stdout)] == nodes


def test_every_command_but_the_demo_is_there_too() -> None:
    plugin = {e.name.replace("_", " ") for e in importlib.metadata.entry_points(group="openstack.watcher_sync.v1")}
    assert {f"watcher-sync {name}" for name, _ in commands() if name != "demo"} == plugin


@pytest.mark.rare
def test_openstack_lists_the_commands() -> None:
    listed = run("openstack", "--os-auth-type", "none", "command", "list", "--group", "openstack.watcher_sync.v1")
    assert "watcher-sync entity list" in listed.stdout
