# SPDX-License-Identifier: Apache-2.0
"""One per cent of what comes is poison."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation, Line, wait_until
from watcher_sync.testing.cloud import CloudSimulator
from watcher_sync.testing.poison import poison


@pytest.mark.timeout(240)
def test_every_poisoned_message_is_in_quarantine_with_its_reason_and_the_rest_is_the_truth(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    sqlite_url: str,
    figure: Callable[[str], None],
) -> None:
    bad = [item for item in poison(random.Random(80), form="oslo") if item.quarantine]
    cloud = CloudSimulator(seed=80, hosts=20, instances=200)
    good = cloud.history(99 * len(bad))
    mixed = [m for i, item in enumerate(bad) for m in (*good[99 * i : 99 * (i + 1)], item.raw)]
    rates: list[float] = []
    for name, messages, url in (("clean", good, sqlite_url + ".clean"), ("mixed", mixed, sqlite_url)):
        nova = line(name)
        site = install(url, engine__enabled_sources="nova")
        site.options |= nova.source("nova")
        site.manage("db_sync")
        nova.publish(messages)
        config = site.config()
        engine = site.engine(config)
        engine.wait_until_leading()
        began = time.monotonic()
        wait_until(lambda nova=nova: not nova.waiting(), 90)
        rates.append(len(messages) / (time.monotonic() - began))
        site.drain(config, nova, engine=engine)
    figure(f"{rates[0]:.0f} events/s without poison, {rates[1]:.0f} events/s with {len(bad)} in {len(mixed)}")
    site.check(cloud.truth())

    listed = [json.loads(row) for row in site.manage("quarantine", "list").splitlines()]
    by_reason = [(item.label, item.needle, row["reason"]) for item, row in zip(bad, listed, strict=True)]
    wrong = [entry for entry in by_reason if not entry[2] or entry[1].lower() not in entry[2].lower()]
    assert not wrong, f"{len(wrong)} reasons do not tell: {wrong[:10]}"
    assert all(row["source"] == "nova" for row in listed)
