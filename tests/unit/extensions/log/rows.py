# SPDX-License-Identifier: Apache-2.0
"""Rows of outlets."""

from __future__ import annotations

import datetime
from typing import Any

from watcher_sync.extensions.log.cursors import PUBLISHING, OutletCursor

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def outlet_cursor(**fields: Any) -> OutletCursor:
    """A row of an outlet that publishes."""
    given: dict[str, Any] = {
        "outlet": "bus",
        "driver": "nats_jetstream",
        "partition": "region-1",
        "token": 1,
        "selection": "",
        "epoch": "e",
        "seq": 1,
        "published_seq": 1,
        "state": PUBLISHING,
        "since": NOW,
        "host": "control-1",
        "pid": 1184,
        "updated_at": NOW,
    }
    return OutletCursor(**{**given, **fields})
