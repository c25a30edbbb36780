# SPDX-License-Identifier: Apache-2.0
"""The demo's picture on terminals of several sizes."""

from __future__ import annotations

import datetime
import io
import re
from typing import Any

import msgspec
import pytest
from rich.console import Console

from watcher_sync.client import Change, Source
from watcher_sync.client.stats import StatsSnapshot
from watcher_sync.demo.screen import DemoFigures, DemoScreen, VnfRow, plain_line
from watcher_sync.model.changes import Outcome

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
UUID = "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8"
SIZES = [(80, 24), (120, 40), (200, 60)]


def change(seq: int) -> Change:
    return Change(
        seq=seq, time=NOON, kind="instance", id=UUID, change="updated",
        delta={"state": ("active", "stopped"), "updated_at": (None, "2026-03-01T08:00:00Z")},
        event_id="e", event_type="instance.power_off.end", source="nova",
    )  # fmt: skip


def source(name: str, **values: Any) -> Source:
    return Source(source=name, **{"state": "connected", "fresh": True, "updated_at": NOON, **values})


STATS = StatsSnapshot(
    counts={
        "aggregate": 4,
        "cluster": 1,
        "compute_node": 40,
        "instance": 12_345,
        "pod": 21,
        "provider": 0,
        "service_type_instance": 60,
        "vnf_instance": 4,
        "workload": 11,
    },
    sources=[
        source("nova", lag=3),
        source("dcm", lag=0),
        source("edge", state="disconnected", fresh=False, problem="refused"),
    ],
    changes=[change(seq) for seq in range(61, 101)],
    seq=100,
    rate=1234.5,
)

FIGURES = DemoFigures(
    elapsed=12.3,
    length=20.0,
    phase="the cloud runs",
    published=100,
    committed=90,
    outcomes={outcome.value: 12_345 for outcome in Outcome},
    quarantined=40,
    quarantine=[{"id": i, "event_type": "x.y", "reason": "a [red]reason[/red] " * 30} for i in range(1, 41)],
    vnfs=[
        VnfRow(name="amf", state="OUT_OF_RANGE", levels="workers -/2", pods=7, held_by="lcm-1 SCALE"),
        VnfRow(name="du-agent", state="SYNCED", levels="", pods=3, held_by=""),
        VnfRow(name="udr", state="UNKNOWN", levels="shards 1/2", pods=12, held_by=""),
        VnfRow(name="upf", state="SYNCED", levels="sessions 1/3", pods=1234, held_by="lcm-2 HEAL"),
    ],
    operations="14 operations, 5 refused with 409",
)


LOOK = [
    ".venv/bin/watcher-sync --endpoint http://127.0.0.1:8790 top",
    ".venv/bin/watcher-sync --endpoint http://127.0.0.1:8790 event tail --follow",
]


def drawn(figures: DemoFigures, width: int, height: int, stats: StatsSnapshot = STATS) -> list[str]:
    screen = DemoScreen(commands=LOOK, page="http://127.0.0.1:8790")
    screen.figures, screen.stats = figures, stats
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(screen, highlight=False)
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_fills_the_terminal_and_no_more(width: int, height: int) -> None:
    lines = drawn(FIGURES, width, height)
    assert len(lines) == height
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_is_as_high_while_there_is_nothing_to_show(width: int, height: int) -> None:
    empty = msgspec.structs.replace(FIGURES, quarantine=[], quarantined=0, vnfs=[])
    nothing = StatsSnapshot(counts={}, sources=[], changes=[], seq=0, rate=0.0)
    few = msgspec.structs.replace(FIGURES, quarantine=FIGURES.quarantine[:1])
    one = msgspec.structs.replace(STATS, changes=STATS.changes[:1])
    assert len(drawn(empty, width, height, nothing)) == len(drawn(few, width, height, one)) == height


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_shows_the_latest_change_and_the_latest_reason(width: int, height: int) -> None:
    text = "\n".join(drawn(FIGURES, width, height))
    assert " 100 updated instance 6f1d3b5a" in text
    assert "state: active -> stopped" in text
    assert "updated_at" not in text
    assert " 40 x.y: a [red]reas" in text
    assert "3 waiting" in text


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_page_and_the_commands_to_look_with_are_whole(width: int, height: int) -> None:
    text = "\n".join(drawn(FIGURES, width, height))
    for part in ("http://127.0.0.1:8790/", *LOOK):
        assert part in text


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_shows_vnf_instances_what_is_done_with_them_and_the_kinds_that_they_are_made_of(
    width: int, height: int
) -> None:
    text = "\n".join(drawn(FIGURES, width, height))
    for row in FIGURES.vnfs:
        assert re.search(rf"{row.name} +{row.state[:8]}.*{row.levels}.* {row.pods}( pods)? *[^ ]+$", text, re.MULTILINE)
    assert FIGURES.operations in text
    assert re.search(r"pod +21 ", text)
    assert re.search(r"instance +12,345 ", text)
    assert "duplicate 12,345 " in text
    assert (re.search(r"cluster +1 ", text) is not None) is (height >= 40)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_source_is_there_and_what_is_wrong_with_it(width: int, height: int) -> None:
    text = "\n".join(drawn(FIGURES, width, height))
    assert re.search(r"dcm +connected", text)
    assert re.search(r"edge +disconn", text)
    assert "refused " in text


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_without_vnf_instances_the_quarantine_has_all_the_width(width: int, height: int) -> None:
    lines = drawn(msgspec.structs.replace(FIGURES, vnfs=[], operations=""), width, height)
    assert len(lines) == height
    title = next(line for line in lines if "Quarantine: 40" in line)
    assert len(title) == width
    assert title.count("\N{BOX DRAWINGS LIGHT ARC DOWN AND LEFT}") == 1


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_last_webhooks_are_above_where_to_look(width: int, height: int) -> None:
    told = [f"amf: {number} modified; seq {number}, lag 0.02 s [x]" for number in range(1, 6)]
    lines = drawn(msgspec.structs.replace(FIGURES, webhooks=told), width, height)
    assert len(lines) == height
    shown = [line.strip() for line in lines if line.startswith("webhook: ")]
    assert shown == [f"webhook: {line}" for line in (told[-3:] if height >= 40 else told[-1:])]
    assert lines[lines.index(f"webhook: {told[-1]}") + 1].startswith("look yourself")


def test_a_plain_line_has_the_lag_and_every_kind() -> None:
    line = plain_line(FIGURES, STATS)
    assert "lag 10" in line
    assert "1,234 events/s" in line
    assert "compute_node 40, instance 12,345" in line
    assert "14 operations, 5 refused with 409" in line
    assert "\n" not in line
