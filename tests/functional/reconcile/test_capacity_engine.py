# SPDX-License-Identifier: Apache-2.0
"""A running engine asks the enabled capacity providers, and reads a changed file again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.engine.driving import Installation
from tests.waiting import wait_until

SERVICE = {
    "publisher_id": "nova-compute:host-1",
    "event_type": "service.create",
    "priority": "INFO",
    "message_id": "1",
    "timestamp": "2026-01-01 12:00:00.000000",
    "payload": {
        "nova_object.name": "ServiceStatusPayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {
            "host": "host-1",
            "binary": "nova-compute",
            "disabled": False,
            "disabled_reason": None,
            "forced_down": False,
        },
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "capacity.yaml"
    file.write_text("hosts:\n  host-1: {vcpus: 8}\n")
    return file


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, tmp_path: Path, file: Path) -> Installation:
    site = install(
        sqlite_url,
        reconcile__jitter=0,
        reconcile_capacity__providers="static",
        reconcile_capacity__interval=600,
        capacity_provider_static__file=file,
    )
    site.upgrade()
    (tmp_path / "host.json").write_text(json.dumps(SERVICE))
    site.manage("replay", "--source", "nova", tmp_path / "host.json")
    return site


def rewrite(file: Path, text: str) -> None:
    """Replace the file at once, so that the engine never reads a part of it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def host(site: Installation) -> dict[str, Any]:
    (found,) = site.store.load().snapshot().dump("compute_node")
    return found


def test_the_file_is_read_again_when_it_changes_and_after_a_sighup(site: Installation, file: Path) -> None:
    engine = site.engine(site.config())
    wait_until(lambda: host(site)["vcpus"] == 8, what="the first run")
    rewrite(file, "hosts:\n  host-1: {vcpus: 16, vcpu_ratio: 4}\n")
    wait_until(lambda: host(site)["vcpus"] == 16, what="the changed file")
    rewrite(file, "hosts:\n  host-1: {vcpus: many}\n")
    wrong = f"The reconciliation of capacity/static fails: {file}: host host-1: vcpus: Expected `int | null`, got `str`"
    engine.wait_for_log(wrong)
    assert host(site)["vcpus"] == 16
    engine.signal(signal.SIGHUP)
    rewrite(file, "hosts:\n  host-1: {vcpus: 32}\n")
    wait_until(lambda: host(site)["vcpus"] == 32, what="the repaired file")
    assert engine.logged(wrong) == 1
    status, _ = engine.terminate()
    assert status == 0


def test_a_provider_that_cannot_work_is_said_at_the_start(site: Installation) -> None:
    done = site.run("watcher-sync-engine", config=site.config(reconcile_capacity__providers="statik"))
    assert done.returncode == 2
    assert "error: [reconcile_capacity] providers: there is no provider 'statik'" in done.stderr


def test_manage_reconciles_capacity_and_a_dry_run_writes_nothing(site: Installation) -> None:
    assert "host-1" in site.manage("reconcile", "--dry-run", "static")
    assert host(site)["vcpus"] is None
    site.manage("reconcile", "static")
    assert host(site)["vcpus"] == 8
