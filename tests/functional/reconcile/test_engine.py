# SPDX-License-Identifier: Apache-2.0
"""An engine runs the reconcilers that are installed, and none of them can hold it up."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.reconcile.installed import Installed
from tests.waiting import deadline, wait_until

Site = tuple[Installation, Installed]


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, tmp_path: Path) -> Site:
    """An installation without sources, with the reconciler."""
    made = install(sqlite_url, reconcile__interval=600, reconcile__jitter=0)
    plugin = Installed(tmp_path / "plugin")
    made.environment["PYTHONPATH"] = str(tmp_path / "plugin")
    made.upgrade()
    return made, plugin


def test_a_reload_changes_the_interval_and_a_hanging_scope_delays_neither_others_nor_the_end(
    site: Site,
) -> None:
    installation, plugin = site
    config = installation.config()
    engine = installation.engine(config)
    wait_until(lambda: plugin.runs("quick") == 1 == plugin.runs("hanging"), what="the first runs")
    engine.wait_for_log("Reconciled standin/quick: 1 entities written")
    installation.write_config(config, {"reconcile.interval": 1})
    engine.signal(signal.SIGHUP)
    engine.wait_for_log("Reloaded the configuration: reconcile.interval")
    wait_until(lambda: plugin.runs("quick") >= 4, what="runs at the new interval")
    assert plugin.runs("hanging") == 1
    status, seconds = engine.terminate()
    assert (status, seconds < deadline(30)) == (0, True), engine.log[-4000:]


def test_a_reload_with_a_wrong_value_changes_nothing_and_is_said_once(site: Site) -> None:
    installation, plugin = site
    config = installation.config(reconcile__interval=1)
    engine = installation.engine(config)
    wait_until(lambda: plugin.runs("quick") >= 2, what="runs at the first interval")
    installation.write_config(config, {"reconcile.interval": 0, "DEFAULT.debug": "true"})
    engine.signal(signal.SIGHUP)
    engine.wait_for_log("[reconcile] interval: ")
    seen = plugin.runs("quick")
    wait_until(lambda: plugin.runs("quick") >= seen + 2, what="runs at the old interval")
    assert not engine.logged("Traceback")
    assert not engine.logged(" DEBUG ")
    assert engine.logged(" ERROR ") == 1
    installation.write_config(config, {"reconcile.interval": 600})
    engine.signal(signal.SIGHUP)
    engine.wait_for_log("Reloaded the configuration: reconcile.interval")
    status, _ = engine.terminate()
    assert status == 0


def test_an_engine_whose_reconciliation_is_disabled_reconciles_nothing(site: Site) -> None:
    installation, plugin = site
    engine = installation.engine(installation.config(reconcile__enabled=False))
    engine.wait_until_leading()
    status, _ = engine.terminate()
    assert (status, plugin.runs("quick")) == (0, 0)


def test_a_wrong_policy_is_said_at_the_start(install: Callable[..., Installation], sqlite_url: str) -> None:
    installation = install(sqlite_url)
    installation.upgrade()
    done = installation.run("watcher-sync-engine", config=installation.config(reconcile__policy="pod:mend"))
    assert done.returncode == 2
    assert "error: [reconcile] policy: pod is 'mend'; it can be heal or observe" in done.stderr
    done = installation.run("watcher-sync-engine", config=installation.config(reconcile__policy="pods:observe"))
    assert done.returncode == 2
    assert "error: [reconcile] policy: there is no kind 'pods'; there are aggregate, cluster, " in done.stderr
