# SPDX-License-Identifier: Apache-2.0
"""``--as-of``, ``diff`` and ``export``: the commands and the methods of the client behind them."""

from __future__ import annotations

import csv
import datetime
import io
import json
import sys

import pytest
from pyarrow import parquet

from tests.simulated import by_facet, telling, told
from watcher_sync.client import Gone
from watcher_sync.client.commands import export as commands
from watcher_sync.client.errors import ClientError
from watcher_sync.client.shell import Shell
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.stored.retention import Retention, purge

CREATED = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def writes(store):
    """Commits changes; the seq after each of three commits."""
    cycle = CommitCycle(store, store.load(), telling())
    seqs = []

    def upsert(entity_id, version, **values):
        return Upsert("instance", entity_id, str(version), by_facet("instance", **values))

    for changes in (
        [
            upsert("a", 1, name='w"eb,\n1', vcpus=2, locked=True, created_at=CREATED, metadata={"x": [1]}),
            upsert("b", 1, name="db"),
        ],
        [upsert("a", 2, vcpus=4), upsert("c", 1, name="new"), upsert("d", 1), upsert("b", 2, name="x")],
        [
            upsert("b", 3, name="db"),
            Delete("instance", "d", "2"),
            Delete("instance", "c", "2"),
            upsert("e", 1, name="e"),
        ],
    ):
        cycle.run(Batch(events=[told(n, change) for n, change in enumerate(changes)]))
        seqs.append(cycle.model.generation)
    return seqs


def shell(url, capsysbinary, *argv):
    """Exit status, stdout, stderr."""
    status = Shell(["--endpoint", url, *argv]).run(["--endpoint", url, *argv])
    out, err = capsysbinary.readouterr()
    return status, out, err.decode()


def test_lists_and_items_of_the_past(client, writes):
    assert [e["id"] for e in client.entities("instance", as_of=writes[1])] == ["a", "b", "c", "d"]
    client._page_size = 1
    pages = list(client.entity_pages("instance", as_of=writes[1]))
    assert [page.seq for page in pages] == [writes[1]] * 4
    assert client.entity("instance", "a", as_of=writes[0])["vcpus"] == 2
    assert client.find_entity("instance", "x", as_of=writes[1])["id"] == "b"


def test_a_time_becomes_the_seq_of_the_first_page(client, writes, monkeypatch):
    asked, get = [], client._get
    monkeypatch.setattr(client, "_get", lambda path, into, query=None: asked.append(query) or get(path, into, query))
    client._page_size = 2
    now = datetime.datetime.now(datetime.UTC).isoformat()
    assert len(list(client.entities("instance", as_of=now))) == 3
    assert [query["as_of"] for query in asked if query] == [now, writes[2]]


@pytest.mark.slow
def test_the_difference_of_two_moments_has_what_differs(client, writes):
    def between(since, upto=None, **wanted):
        return [(d.id, d.name, d.change, d.fields) for d in client.differences(since, upto, **wanted)]

    assert between(writes[0]) == [
        ("a", 'w"eb,\n1', "updated", {"vcpus": (2, 4)}),
        ("e", "e", "created", {"name": (None, "e")}),
    ]
    assert between(writes[1], writes[2]) == [
        ("b", "db", "updated", {"name": ("x", "db")}),
        ("c", "new", "deleted", {"name": ("new", None)}),
        ("d", None, "deleted", {}),
        ("e", "e", "created", {"name": (None, "e")}),
    ]
    client._page_size = 1
    assert len(between(0, writes[1])) == 4
    assert between(0, writes[1], kind="pod") == between(writes[2]) == []


def test_the_difference_of_a_purged_moment_is_410(client, writes, store):
    ever = datetime.timedelta(days=9999)
    purge(store.database, store.tables, Retention(None, 3, ever, None), None)
    with pytest.raises(Gone, match="from may be the seq"):
        list(client.differences(1))


def test_the_command_diff_prints_a_line_for_each_entity(url, writes, capsysbinary):
    status, out, _ = shell(url, capsysbinary, "diff", "--from", str(writes[1]), "-f", "json")
    assert status == 0
    assert [(row["ID"], row["Change"]) for row in json.loads(out)] == [
        ("b", "updated"),
        ("c", "deleted"),
        ("d", "deleted"),
        ("e", "created"),
    ]
    assert shell(url, capsysbinary, "diff", "--from", "99999")[0] == 2


def test_the_commands_take_as_of(url, writes, capsysbinary):
    listed = ("entity", "list", "instance", "--as-of", str(writes[0]), "-f", "json", "--filter", "vcpus<3")
    assert [row["ID"] for row in json.loads(shell(url, capsysbinary, *listed)[1])] == ["a"]
    shown = ("entity", "show", "instance", "b", "--as-of", str(writes[1]), "-f", "json")
    assert json.loads(shell(url, capsysbinary, *shown)[1])["name"] == "x"


def test_an_export_as_json_lines_has_one_object_a_line(url, writes, capsysbinary):
    argv = ("export", "instance", "--as-of", str(writes[0]), "--fields", "id,name,metadata")
    status, out, _ = shell(url, capsysbinary, *argv)
    assert status == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": "a", "name": 'w"eb,\n1', "metadata": {"x": [1]}},
        {"id": "b", "name": "db", "metadata": None},
    ]


def test_an_export_as_csv_has_all_fields(url, writes, capsysbinary, tmp_path):
    file = tmp_path / "i.csv"
    status, _, err = shell(
        url, capsysbinary, "export", "instances", "-f", "csv", "-o", str(file), "--filter", "vcpus>0"
    )
    assert (status, err) == (0, f"1 entities as of seq {writes[2]}\n")
    (row,) = csv.DictReader(io.StringIO(file.read_bytes().decode(), newline=""))
    found = {name: row[name] for name in ("id", "name", "vcpus", "locked", "metadata", "host")}
    assert found == {"id": "a", "name": 'w"eb,\n1', "vcpus": "4", "locked": "true", "metadata": '{"x":[1]}', "host": ""}
    assert list(row)[-1] == "seq"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["instance", "pod", "compute_node", "vnf_instance"])
def test_an_export_as_parquet_has_types_even_without_entities(url, writes, capsysbinary, tmp_path, kind):
    file = tmp_path / "i.parquet"
    assert shell(url, capsysbinary, "export", kind, "-f", "parquet", "-o", str(file))[0] == 0
    table = parquet.read_table(file)
    assert str(table.schema.field("seq").type) == "int64"
    if kind == "instance":
        types = {
            name: str(table.schema.field(name).type) for name in ("created_at", "vcpus", "locked", "metadata", "state")
        }
        assert types == {
            "created_at": "timestamp[us, tz=UTC]", "vcpus": "int64", "locked": "bool", "metadata": "string",
            "state": "string",
        }  # fmt: skip
        assert table.to_pylist()[0]["created_at"] == CREATED
        assert table.column("id").to_pylist() == ["a", "b", "e"]


def test_an_export_that_fails_leaves_no_file(url, writes, capsysbinary, tmp_path, monkeypatch):
    file = tmp_path / "i"
    status, _, err = shell(url, capsysbinary, "export", "instance", "-o", str(file), "--filter", "nothing=1")
    assert status == 2
    assert "nothing" in err
    assert shell(url, capsysbinary, "export", "instance", "-o", str(tmp_path / "none" / "i"))[0] == 1
    assert shell(url, capsysbinary, "export", "instance", "--fields", "nothing")[0] == 2
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    status, _, err = shell(url, capsysbinary, "export", "instance", "-f", "parquet", "-o", str(file))
    assert (status, err) == (1, "error: Parquet needs pyarrow: pip install 'watcher-sync[parquet]'\n")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("i")]


def test_parquet_is_not_written_to_a_terminal(client, monkeypatch):
    monkeypatch.setattr(commands.sys, "stdout", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    parsed = commands.Export(None, None).get_parser("export").parse_args(["instance", "-f", "parquet"])
    with pytest.raises(ClientError, match="no output for a terminal"):
        commands.Export(None, None).take_action(parsed)
