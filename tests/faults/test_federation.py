# SPDX-License-Identifier: Apache-2.0
"""Three regions under load and one installation that follows them; each of the four is killed again and again.

Before the kills, the test measures the lag of each change: from its commit in the region to its commit in the global
model.

The variables ``WATCHER_SYNC_TEST_FEDERATION_SEED`` and ``WATCHER_SYNC_TEST_FEDERATION_ROUNDS`` change the order of the
kills and their number.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.faults.federations import SITES, Federation
from tests.functional.engine.driving import Installation, Line, scaled
from tests.functional.sources.federated import Sampler, quantile, unreal_deletions
from tests.waiting import seconds_until, wait_until
from watcher_sync.testing.nova.notifications import Document

SEED = int(os.environ.get("WATCHER_SYNC_TEST_FEDERATION_SEED", "1"))
ROUNDS = int(os.environ.get("WATCHER_SYNC_TEST_FEDERATION_ROUNDS", "3"))
EVENTS = 4_000
CALM_SECONDS = 30
"""How long the regions are under load before the first kill."""
RATE = 40
"""Notifications a second in each region, before the first kill."""
MAX_LAG_SECONDS = 0.5
"""Of 99 % of the changes, without kills."""

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("database", ["sqlite_url", "postgresql_url", "mariadb_url"])
def test_the_global_model_is_the_union_after_each_of_the_four_was_killed_again_and_again(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    request: pytest.FixtureRequest,
    database: str,
    figure: Callable[[str], None],
) -> None:
    federation = Federation(install, request.getfixturevalue(database), line, seed=SEED, page_size=100)
    federation.start()
    histories = {name: iter(cloud.history(scaled(EVENTS))) for name, cloud in federation.clouds.items()}
    lags = calm_lags(federation, histories)
    p99 = quantile(lags, 0.99)
    figure(f"{database}: {len(lags)} changes visible globally after {quantile(lags, 0.5):.3f} s, p99 {p99:.3f} s")
    began = time.monotonic()
    with ExitStack() as stack:
        for name, history in histories.items():
            rate = (scaled(EVENTS) - CALM_SECONDS * RATE) / (20 * ROUNDS)
            stack.enter_context(federation.lines[name].publishing(history, rate=max(10.0, rate)))
        kills = federation.kill_in_turn(random.Random(SEED), ROUNDS)
    federation.wait_until_true()
    healed = seconds_until(federation.is_equal, 120, "the union")
    assert unreal_deletions(federation.whole, federation.regions) == []
    federation.whole.site.check_journal()
    sizes = {name: region.site.head() for name, region in federation.regions.items()}
    figure(
        f"{kills} kills in {time.monotonic() - began:.0f} s, changes in the regions {sizes}, in the global model "
        f"{federation.whole.site.head()}; equal {healed:.1f} s after the last region was"
    )
    assert p99 <= MAX_LAG_SECONDS


def calm_lags(federation: Federation, histories: Mapping[str, Iterator[Document]]) -> list[float]:
    """Publish the beginning of the histories, and return the lags of the changes."""
    for region in federation.regions.values():
        region.wait_until_serving()
    wait_until(
        lambda: (
            all(row.state == "connected" for row in federation.whole.source_rows().values())
            and len(federation.whole.source_rows()) == len(SITES)
        ),
        60,
        "the connections to the regions",
    )
    before = {name: region.site.head() for name, region in federation.regions.items()}
    with Sampler(federation.whole.site.store) as sampler:
        with ExitStack() as stack:
            for name, history in histories.items():
                calm = itertools.islice(history, CALM_SECONDS * RATE)
                stack.enter_context(federation.lines[name].publishing(calm, rate=RATE))
        for name in histories:
            wait_until(lambda: not federation.lines[name].waiting(), 60, f"the end of the queue of {name}")  # noqa: B023
        wait_until(federation.is_equal, 60, "the union")
        rows = {name: region.site.rows(before[name]) for name, region in federation.regions.items()}
        wait_until(lambda: all(sampler.has(name, rows[name][-1]) for name in rows), 30, "the last changes")
    return [lag for name in rows for lag in sampler.lags(name, rows[name])]
