# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import pathlib
import random
import sqlite3

import msgspec
import pytest
from rich.console import Console

from tests.benchmarks import references
from tests.benchmarks.figures import Budget, Figure, against, document, number, print_table
from tests.benchmarks.places import _fits_a_line
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.recording import write_jsonl
from watcher_sync.testing.poison import poison

RATIO = against(
    [(10.0, 100.0), (60.0, 100.0), (30.0, 50.0)],
    benchmark="b",
    what="the subject",
    unit="events/s",
    reference_unit="rows/s",
    budget=Budget(">=", 0.5),
)
SLOW = Figure(benchmark="b", what="too slow", measured=7.0, unit="ms", budget=Budget("<=", 5, "ms"))
FREE = Figure(benchmark="b", what="no budget", measured=1234.5, unit="bytes")


def test_the_ratio_is_the_median_of_the_pairs_ratios_and_not_the_ratio_of_the_medians() -> None:
    assert (RATIO.measured, RATIO.reference) == (30.0, 100.0)
    assert RATIO.ratio == 0.6


def test_a_budget_of_the_ratio_is_held_against_the_ratio() -> None:
    assert RATIO.met() is True
    assert msgspec.structs.replace(RATIO, budget=Budget(">=", 0.7)).met() is False


def test_a_figure_without_a_budget_is_neither_met_nor_missed() -> None:
    assert FREE.met() is None


@pytest.mark.parametrize(
    ("sense", "value", "met"), [(">=", 5, True), (">=", 4.9, False), ("<=", 5, True), ("<=", 5.1, False)]
)
def test_the_limit_itself_keeps_the_budget(sense: str, value: float, met: bool) -> None:
    assert Budget(sense, 5).met(value) is met  # type: ignore[arg-type]


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        against([], benchmark="b", what="x", unit="", reference_unit="", budget=None)


def test_the_table_shows_what_is_measured_beside_its_budget_and_whether_it_is_met() -> None:
    out = io.StringIO()
    print_table([RATIO, SLOW, FREE], Console(file=out, width=160))
    subject, slow, free = [line.split("  ") for line in out.getvalue().splitlines()[-4:-1]]
    assert [w.strip() for w in subject if w.strip()] == [
        "the subject",
        "30 events/s",
        "100 rows/s",
        "0.6",
        ">= 0.5",
        "yes",
    ]
    assert [w.strip() for w in slow if w.strip()] == ["too slow", "7 ms", "<= 5 ms", "NO"]
    assert [w.strip() for w in free if w.strip()] == ["no budget", "1,234 bytes"]


def test_the_document_says_the_same_for_machines() -> None:
    read = msgspec.json.decode(document([RATIO, SLOW, FREE], quick=True))
    assert read["quick"] is True
    assert [(f["what"], f["met"]) for f in read["figures"]] == [
        ("the subject", True),
        ("too slow", False),
        ("no budget", None),
    ]


@pytest.mark.parametrize(("value", "shown"), [(12_345.6, "12,346"), (0.01234, "0.0123"), (30.0, "30"), (8.56, "8.56")])
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_what_is_put_among_the_lines_of_a_recording_is_one_line() -> None:
    bodies = [item.raw for item in poison(random.Random(3)) if item.quarantine and _fits_a_line(item.raw)]
    assert len(bodies) > 50
    assert not any(b"\n" in body or not body.strip() for body in bodies)


def test_the_naive_pipeline_keeps_what_the_events_say(tmp_path: pathlib.Path) -> None:
    key = "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8"
    events = [notifications.event("instance.update", uuid=key, display_name=name) for name in ("first", "second")]
    write_jsonl(tmp_path / "events.jsonl", events)
    assert references.naive_pipeline(tmp_path / "events.jsonl", tmp_path / "naive.sqlite", events=2) > 0
    with sqlite3.connect(tmp_path / "naive.sqlite") as connection:
        assert connection.execute("SELECT id, name FROM servers").fetchall() == [(key, "second")]
