# SPDX-License-Identifier: Apache-2.0
"""A leader that dies, or only seems to, and the standby behind it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation, Line
from tests.waiting import wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.mark.parametrize("fate", ["killed", pytest.param("frozen", marks=pytest.mark.rare)])
def test_a_standby_takes_over_with_the_model_that_it_has(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    postgresql_url: str,
    figure: Callable[[str], None],
    fate: str,
) -> None:
    nova = line("nova")
    site = install(
        postgresql_url, engine__enabled_sources="nova", engine__standby="true", engine__batch_size=100,
        engine__graceful_shutdown_timeout=30, database__lease_time=12,
    )  # fmt: skip
    site.options |= nova.source("nova")
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=60, hosts=20, instances=200)
    leader = site.engine(config)
    leader.wait_until_leading()
    standby = site.engine(config)
    standby.wait_for_log("Loaded the model")
    with nova.publishing(cloud.events(), rate=400, most=50_000):
        # So much that the standby follows, and has said so. It does after one lease time, which no pause of the leader
        # reaches.
        wait_until(lambda: site.head() > 500, what="load")
        standby.wait_for_log("Standing by")
        assert not standby.logged("Leading the engine group")
        if fate == "killed":
            leader.kill()
        else:
            leader.signal_all(signal.SIGSTOP)
        gone = time.monotonic()
        head = site.head()
        standby.wait_until_leading()
        leads = time.monotonic() - gone
        wait_until(lambda: site.head() > head, what="a commit of the standby")
        figure(f"leads after {leads:.1f} s, commits after {time.monotonic() - gone:.1f} s")
        if fate == "frozen":
            leader.signal_all(signal.SIGCONT)
            # It may notice first that its own commit has no answer. Either way it ends its lead.
            leader.wait_for_log("Standing by: engine")
    if fate == "frozen":
        assert leader.logged("Leading the engine group") == 1
        assert leader.terminate()[0] == 0
    assert standby.logged("Loaded the model") == 1
    site.drain(config, nova, engine=standby)
    site.check(cloud.reported())
