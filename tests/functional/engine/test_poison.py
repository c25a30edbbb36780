# SPDX-License-Identifier: Apache-2.0
"""One message of twenty is poison.

What that costs is shown by the benchmark ``rabbitmq-poison``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tests.functional.engine.driving import Installation, Line
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.poison import poison


def test_every_poisoned_message_is_in_quarantine_with_its_reason_and_the_rest_is_the_truth(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    sqlite_url: str,
) -> None:
    bad = [item for item in poison(random.Random(80), form="oslo") if item.quarantine]
    cloud = CloudSimulator(seed=80, hosts=20, instances=200)
    good = cloud.history(19 * len(bad))
    nova = line("nova")
    site = install(sqlite_url, engine__enabled_sources="nova")
    site.options |= nova.source("nova")
    site.upgrade()
    nova.publish(m for i, item in enumerate(bad) for m in (*good[19 * i : 19 * (i + 1)], item.raw))
    site.drain(site.config(), nova)
    site.check(cloud.reported())

    listed = [json.loads(row) for row in site.manage("quarantine", "list").splitlines()]
    by_reason = [(item.label, item.needle, row["reason"]) for item, row in zip(bad, listed, strict=True)]
    wrong = [entry for entry in by_reason if not entry[2] or entry[1].lower() not in entry[2].lower()]
    assert not wrong, f"{len(wrong)} reasons do not tell: {wrong[:10]}"
    assert all(row["source"] == "nova" for row in listed)
