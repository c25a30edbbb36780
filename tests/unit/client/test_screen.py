# SPDX-License-Identifier: Apache-2.0
"""What ``top`` draws on terminals of several sizes."""

from __future__ import annotations

import datetime
import io
import re

import pytest
from rich.console import Console

from watcher_sync.client import Change, Source
from watcher_sync.client.screen import Screen
from watcher_sync.client.stats import StatsSnapshot

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
UUID = "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8"
SIZES = [(80, 24), (120, 40), (200, 60)]


def change(seq, **values):
    known = {
        "time": NOON, "kind": "instance", "id": UUID, "change": "updated", "delta": {"state": ("active", None)},
        "event_id": "e", "event_type": "instance.update", "source": "nova",
    }  # fmt: skip
    return Change(seq=seq, **known | values)


def source(name, **values):
    return Source(**{"source": name, "state": "connected", "fresh": True, "updated_at": NOON, **values})


SNAPSHOT = StatsSnapshot(
    counts={f"kind_{i}": 10**i for i in range(7)},
    sources=[
        source("nova", lag=3, last_event_age=4.0),
        source("edge", state="disconnected", fresh=False, problem="x " * 99),
    ],
    changes=[change(seq) for seq in range(1, 101)],
    seq=100,
    rate=1234.5,
)


def drawn(snapshot, width, height, **options):
    screen = Screen(**options)
    screen.stats = snapshot
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(screen)
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("sources", [0, 2, 30])
def test_the_picture_fits_and_shows_the_newest_change(width, height, sources):
    many = [*SNAPSHOT.sources, *(source(f"s{i}") for i in range(28))][:sources]
    lines = drawn(StatsSnapshot(**{**vars_of(SNAPSHOT), "sources": many}), width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "1,234.5 events/s" in text
    assert "1,000,000" in text
    assert " 100 updated" in text
    assert "state: active -> -" in text


def test_sources_in_trouble_come_first_and_the_rest_is_counted():
    many = [*(source(f"a{i}") for i in range(28)), source("zone", fresh=False, state="failed", problem="no route")]
    text = "\n".join(drawn(StatsSnapshot(**{**vars_of(SNAPSHOT), "sources": many}), 80, 24))
    assert re.search(r"zone +failed", text)
    assert "no route" in text
    assert "24 more" in text


def test_names_cannot_move_the_cursor_nor_set_colours():
    evil = change(1, id="a\x1b[2Jb", delta={"name": ("[red]x[/red]", "\x1b]0;t\x07\n")})
    lines = drawn(StatsSnapshot(**{**vars_of(SNAPSHOT), "changes": [evil]}), 200, 24, once=True)
    text = "\n".join(lines)
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert "[red]x[/red]" in text


def vars_of(snapshot):
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}


def test_trouble_is_said_on_80_columns():
    head = drawn(
        StatsSnapshot(**{**vars_of(SNAPSHOT), "problem": "http://127.0.0.1:8790: Connection refused"}), 80, 24
    )[0]
    assert "seq 100  http://127.0.0.1:8790: Connection refused" in head
