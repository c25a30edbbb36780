# SPDX-License-Identifier: Apache-2.0
"""What top counts, and how it looks on terminals of several sizes."""

from __future__ import annotations

import datetime
import io
import re

import pytest
from rich.console import Console

from tests.simulated import cloud
from watcher_sync.client import BadRequest, Change, Gone, Source, Unreachable
from watcher_sync.client.screen import Screen
from watcher_sync.client.stats import WINDOW, Census, Figures
from watcher_sync.commit.cycle import Batch

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
UUID = "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8"
SIZES = [(80, 24), (120, 40), (200, 60)]


def commit(cycle, events):
    for start in range(0, len(events), 25):
        cycle.run(Batch(events=events[start : start + 25]))


def counted(cycle):
    snapshot = cycle.model.snapshot()
    return {kind: len(list(snapshot.dump(kind))) for kind in snapshot.kinds}


def test_the_counts_are_those_of_the_model_at_the_start_and_as_it_goes_on(client, cycle):
    events, _ = cloud(seed=7, n=300)
    commit(cycle, events[:150])
    census = Census(client)
    assert census.first().counts == counted(cycle)
    for start in range(150, 300, 30):
        commit(cycle, events[start : start + 30])
        figures = census.look()
        assert figures.counts == counted(cycle)
        assert figures.seq == cycle.model.generation
    assert [c.seq for c in figures.changes] == sorted({c.seq for c in figures.changes})


def test_what_happened_during_the_listing_is_neither_missed_nor_counted_twice(client, cycle, monkeypatch):
    events, _ = cloud(seed=7, n=300)
    commit(cycle, events[:100])
    list_pages = client.entity_pages

    def listing(kind, **options):
        yield from list_pages(kind, **options)
        if kind == "aggregate":
            commit(cycle, events[100:])

    monkeypatch.setattr(client, "entity_pages", listing)
    figures = Census(client).first()
    assert figures.counts == counted(cycle)
    assert figures.changes[-1].seq <= figures.seq == cycle.model.generation


def test_the_rate_is_of_the_last_seconds(client, cycle):
    now = [0.0]
    events, _ = cloud(seed=7, n=300)
    census = Census(client, monotonic=lambda: now[0])
    census.first()
    commit(cycle, events)
    busy = census.look()
    assert busy.rate * WINDOW == pytest.approx(sum(c.merged for c in client.events_page(0, limit=1000).events))
    now[0] += WINDOW + 1
    assert census.look().rate == 0


def test_an_api_that_is_away_leaves_the_figures_and_says_so(client, cycle, monkeypatch):
    commit(cycle, cloud(seed=7, n=100)[0])
    census = Census(client)
    before = census.first()

    def away():
        raise Unreachable("Connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(client, "sources", away)
        figures = census.look()
        assert (figures.counts, figures.trouble) == (before.counts, "Connection refused")
        with pytest.raises(Unreachable):
            Census(client).first()
    assert census.look().trouble == ""


def test_a_journal_that_is_lost_is_begun_again(client, cycle, monkeypatch):
    events, _ = cloud(seed=7, n=200)
    commit(cycle, events[:100])
    census = Census(client)
    census.first()
    commit(cycle, events[100:])
    ask = client.events_page

    def purged(since=None, **options):
        if since is not None:
            raise Gone(410, "the journal begins later")
        return ask(since, **options)

    monkeypatch.setattr(client, "events_page", purged)
    assert census.look().counts == counted(cycle)


def test_a_refusal_ends_it(client, monkeypatch):
    census = Census(client)
    census.first()

    def refused():
        raise BadRequest(400, "no")

    monkeypatch.setattr(client, "sources", refused)
    with pytest.raises(BadRequest):
        census.look()


def change(seq, **values):
    known = {
        "time": NOON, "kind": "instance", "id": UUID, "change": "updated", "delta": {"state": ("active", None)},
        "event_id": "e", "event_type": "instance.update", "source": "nova",
    }  # fmt: skip
    return Change(seq=seq, **known | values)


def source(name, **values):
    return Source(**{"source": name, "state": "connected", "fresh": True, "updated_at": NOON, **values})


FIGURES = Figures(
    counts={f"kind_{i}": 10**i for i in range(7)},
    sources=[
        source("nova", lag=3, last_event_age=4.0),
        source("edge", state="disconnected", fresh=False, trouble="x " * 99),
    ],
    changes=[change(seq) for seq in range(1, 101)],
    seq=100,
    rate=1234.5,
)


def drawn(figures, width, height, **options):
    screen = Screen(**options)
    screen.figures = figures
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(screen)
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("sources", [0, 2, 30])
def test_the_picture_fits_and_shows_the_newest_change(width, height, sources):
    many = [*FIGURES.sources, *(source(f"s{i}") for i in range(28))][:sources]
    lines = drawn(Figures(**{**vars_of(FIGURES), "sources": many}), width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "1,234.5 events/s" in text
    assert "1,000,000" in text
    assert " 100 updated" in text
    assert "state: active -> -" in text


def test_sources_in_trouble_come_first_and_the_rest_is_counted():
    many = [*(source(f"a{i}") for i in range(28)), source("zone", fresh=False, state="failed", trouble="no route")]
    text = "\n".join(drawn(Figures(**{**vars_of(FIGURES), "sources": many}), 80, 24))
    assert re.search(r"zone +failed", text)
    assert "no route" in text
    assert "24 more" in text


def test_names_cannot_move_the_cursor_nor_set_colours():
    evil = change(1, id="a\x1b[2Jb", delta={"name": ("[red]x[/red]", "\x1b]0;t\x07\n")})
    lines = drawn(Figures(**{**vars_of(FIGURES), "changes": [evil]}), 200, 24, once=True)
    text = "\n".join(lines)
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert "[red]x[/red]" in text


def vars_of(figures):
    return {name: getattr(figures, name) for name in figures.__struct_fields__}


def test_trouble_is_said_on_80_columns():
    head = drawn(Figures(**{**vars_of(FIGURES), "trouble": "http://127.0.0.1:8775: Connection refused"}), 80, 24)[0]
    assert "seq 100  http://127.0.0.1:8775: Connection refused" in head
