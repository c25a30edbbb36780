# SPDX-License-Identifier: Apache-2.0
"""The model as it was at a seq equals the dump that was taken then, on each database and while others write."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.listing import read_page
from tests.functional.storage.writing import cycle_on
from tests.simulated import NOON, by_facet, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.read.entity_reader import After, Sort
from watcher_sync.read.past import past_models, undoing
from watcher_sync.read.past.moments import MomentPurged, moment_of
from watcher_sync.read.past.past_models import PastModels, add_seqs
from watcher_sync.read.past.undoing import read_item_at
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.writing.store import Store

KINDS = ("aggregate", "compute_node", "instance")
VALUES: dict[str, dict[str, list[Any]]] = {
    "aggregate": {
        "name": [None, "a", 'ä\u0001"\\'],
        "hosts": [None, [], ["h1"], ["h1", "h2"]],
        "metadata": [None, {}, {"a": 1.0, "b": [None, True]}],
        "number": [None, 0, 2**53 + 1],
    },
    "compute_node": {
        "status": ["enabled", "disabled"],
        "liveness": [None, "up", "down"],
        "vcpu_ratio": [None, 0.1, 16.0, 1e300],
        "forced_down": [None, True, False],
    },
    "instance": {
        "name": [None, "", "web", "web "],
        "host": [None, "h1", "h2", "h9"],
        "vcpus": [None, 1, 2],
        "locked": [None, True, False],
        "created_at": [None, NOON, NOON.replace(microsecond=1, year=1999)],
        "metadata": [None, {}, {"a": "b"}],
    },
}
Dump = dict[str, dict[str, dict[str, Any]]]


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, dict[str, Any] | None]:
    """(kind, id, the values to write; None: delete)."""
    kind = draw(st.sampled_from(KINDS))
    entity_id = draw(st.sampled_from(["h1", "h2", "x", "y"]))
    if draw(st.integers(0, 4)) == 0:
        return kind, entity_id, None
    fields = draw(st.lists(st.sampled_from(sorted(VALUES[kind])), unique=True, max_size=3))
    return kind, entity_id, {name: draw(st.sampled_from(VALUES[kind][name])) for name in fields}


def made(version: int, kind: str, entity_id: str, values: dict[str, Any] | None) -> Change:
    if values is None:
        return Delete(kind, entity_id, f"{version:08}")
    return Upsert(kind, entity_id, f"{version:08}", by_facet(kind, **values))


def dump(cycle: CommitCycle) -> Dump:
    snapshot = cycle.model.snapshot()
    return {
        name: {e.id: {**{f: getattr(e, f) for f in cycle.model.kinds[name].public}, "seq": e.seq} for e in every}
        for name in KINDS
        for every in [list(snapshot.all(name))]
    }


def read(store: Store, past: PastModels, seq: int, limit: int = 3) -> Dump:
    """What the pages of all lists show at a seq."""
    found: Dump = {}
    with store.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        head = read_position(connection, store.tables)
        assert moment_of(connection, store.tables, head, seq).seq == seq
        for name in KINDS:
            kind, after, more = store.kinds[name], None, True
            rows: list[dict[str, Any]] = []
            while more:
                with past.reading(connection, head, seq, [name]) as copy:
                    page = read_page(
                        copy,
                        store.tables,
                        kind,
                        names=(*kind.public, "seq"),
                        sort=Sort(),
                        after=after,
                        limit=limit,
                    )
                add_seqs(connection, store.tables, name, page.rows, seq)
                rows += page.rows
                after, more = After(None, rows[-1]["id"]) if rows else None, page.more
            found[name] = {row["id"]: row for row in rows}
            for entity_id in ("h1", "h2", "x", "y"):
                item = read_item_at(connection, store.tables, kind, entity_id, seq)
                assert item == found[name].get(entity_id), (seq, name, entity_id)
    return found


@pytest.fixture
def past(store: Store) -> Iterator[PastModels]:
    past = PastModels(store.tables, store.kinds, max_bytes=2**20)
    yield past
    past.close()


@pytest.mark.parametrize("chunk", [2, pytest.param(5_000, marks=pytest.mark.rare)])
def test_the_past_equals_the_dumps_that_were_taken_then(
    store: Store, past: PastModels, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(undoing, "CHUNK_ROWS", chunk)
    cycle = cycle_on(store)
    taken: dict[int, Dump] = {0: dump(cycle)}
    versions = iter(range(1, 1_000_000))
    for values in ({}, None, None):  # an entity without values, and a repeated deletion
        cycle.run(Batch(events=[told(next(versions), made(next(versions), "aggregate", "empty", values))]))
        taken[cycle.model.generation] = dump(cycle)

    @hypothesis.settings(max_examples=7, deadline=None, derandomize=True, database=None)
    @hypothesis.given(
        st.lists(st.lists(changes(), min_size=1, max_size=5), min_size=1, max_size=5),
        st.lists(st.integers(0, 2**20), min_size=2, max_size=2),
    )
    def each(batches: list[list[tuple[str, str, dict[str, Any] | None]]], which: list[int]) -> None:
        for batch in batches:
            events = [told(next(versions), made(next(versions), *change)) for change in batch]
            cycle.run(Batch(events=events))
            taken[cycle.model.generation] = dump(cycle)
        seqs = sorted(taken)
        for seq in (seqs[number % len(seqs)] for number in which):
            assert read(store, past, seq) == taken[seq], seq

    each()
    journal = store.tables.journal.c
    with store.connect() as connection:  # the history has what is hard to take back
        shapes = {(row.change, bool(row.delta)) for row in connection.execute(store.tables.journal.select())}
        assert shapes >= {
            (change, has_values) for change in ("created", "updated", "deleted") for has_values in (True, False)
        }
        assert connection.execute(store.tables.journal.select().where(journal.kind == "compute_node")).first()


def test_a_copy_is_of_the_state_that_the_request_sees_while_others_write(store: Store, past: PastModels) -> None:
    cycle = cycle_on(store)

    def write(version: int, *ids: str) -> None:
        events = [told(f"{version}{i}", made(version, "instance", i, {"vcpus": version})) for i in ids]
        cycle.run(Batch(events=events))

    write(1, *"abcdef")
    then = cycle.model.generation
    write(2, "a", "b", "g")
    with store.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        head = read_position(connection, store.tables)
        write(3, "a", "c", "h")
        cycle.run(Batch(events=[told("4", made(4, "instance", "d", None), made(4, "aggregate", "x", {"name": "x"}))]))
        write(5, "d", "e")
        with past.reading(connection, head, then, ["instance"]) as copy:
            found = copy.exec_driver_sql("SELECT id, vcpus, seq FROM instances ORDER BY id").all()
    assert [row[:2] for row in found] == [(i, 1) for i in "abcdef"]
    assert [row.seq for row in found] == [None, None, 3, 4, 5, 6]


def test_a_host_that_was_made_again_is_the_one_of_before(store: Store, past: PastModels) -> None:
    cycle = cycle_on(store)
    history: list[tuple[str, dict[str, Any] | None]] = [
        ("again", {"status": "enabled"}), ("moved", {"status": "enabled"}), ("same", {"status": "enabled"}),
        ("again", None), ("again", {"vcpus": 1}), ("again", {"vcpus": 2}), ("again", {"vcpus": 2}),
        ("moved", {"status": "enabled"}), ("later", {"vcpus": 1}), ("later", {"vcpus": 1}),
    ]  # fmt: skip
    for version, (entity_id, values) in enumerate(history, 1):
        cycle.run(Batch(events=[told(version, made(version, "compute_node", entity_id, values))]))
    table = store.tables.entities["compute_node"]
    with store.database.begin() as connection:
        connection.execute(sa.update(table).values(last_heard=NOON))
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        with past.reading(connection, head, 3, ["compute_node"]) as copy:
            found = copy.exec_driver_sql("SELECT id, status, vcpus, last_heard FROM compute_nodes ORDER BY id").all()
    assert found == [(name, "enabled", None, None) for name in ("again", "moved", "same")]


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_rows_of_an_sqlite_file_that_did_not_change_are_copied_without_being_read(
    store: Store, past: PastModels
) -> None:
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(n, made(n, "instance", f"i{n}", {"vcpus": 1})) for n in range(1, 9)]))
    statements: list[str] = []
    sa.event.listen(store.database, "after_cursor_execute", lambda *given: statements.append(given[2]))
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        with past.reading(connection, head, 8, ["instance"]) as copy:
            assert copy.exec_driver_sql("SELECT count(*) FROM instances").scalar() == 8
    assert statements
    assert not [statement for statement in statements if "FROM instances" in statement]


@on_one_database
def test_rows_of_another_history_of_the_file_are_not_copied(
    store: Store, past: PastModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, made(1, "instance", "a", {"vcpus": 1}))]))
    monkeypatch.setattr(past_models, "continues", lambda *_: False)
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        with past.reading(connection, head, 1, ["instance"]) as copy:
            assert copy.exec_driver_sql("SELECT id, vcpus FROM instances").all() == [("a", 1)]


@pytest.mark.parametrize("any_migrated_url", ["mariadb"], indirect=True)
def test_no_result_on_mariadb_is_larger_than_a_part(
    store: Store, past: PastModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads a whole result into memory; the others stream."""
    monkeypatch.setattr(undoing, "CHUNK_ROWS", 7)
    cycle = cycle_on(store)
    for version in (1, 2):
        made_here = [made(version, "instance", f"i{n}", {"vcpus": version}) for n in range(50)]
        cycle.run(Batch(events=[told(version, *made_here)]))
    counts: list[int] = []

    def note(_connection: Any, cursor: Any, *_: Any) -> None:
        counts.append(cursor.rowcount)

    sa.event.listen(store.database, "after_cursor_execute", note)
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        with past.reading(connection, head, 50, ["instance"]) as copy:
            assert copy.exec_driver_sql("SELECT count(*), max(vcpus) FROM instances").one() == (50, 1)
    assert max(counts) == 7


def test_a_copy_is_forgotten_also_after_a_request_that_failed(store: Store) -> None:
    cycle = cycle_on(store)
    for version in range(1, 6):
        cycle.run(Batch(events=[told(version, made(version, "instance", "i", {"vcpus": version}))]))
    past = PastModels(store.tables, store.kinds, max_bytes=1)
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        for seq in range(1, 6):
            with pytest.raises(KeyError), past.reading(connection, head, seq, ["instance"]):
                raise KeyError
            assert len(past._models) == 1
    past.close()


def test_few_requests_read_the_past_at_one_time_and_none_waits_indefinitely(
    store: Store, past: PastModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_models, "_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(past_models, "_ADMISSION_SECONDS", 0.1)
    with contextlib.ExitStack() as stack:
        for _ in range(past_models.MAX_READERS):
            stack.enter_context(past.admitted())
        with pytest.raises(DatabaseUnavailable, match="other requests"):
            stack.enter_context(past.admitted())
    with past.admitted(), store.connect() as connection, store.connect() as other:
        head = read_position(connection, store.tables)
        with (
            past.reading(connection, head, 0, ["instance"]),
            pytest.raises(DatabaseUnavailable, match="other requests"),
            past.reading(other, head, 0, ["instance"]),
        ):
            pass


def test_the_past_is_exact_while_an_engine_writes_and_the_journal_is_purged(new_store: Callable[[], Store]) -> None:
    writer, reader = new_store(), new_store()
    cycle, chance = cycle_on(writer), random.Random(5)
    taken: dict[int, Dump] = {0: dump(cycle)}
    is_done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            version = 0
            while not is_done.is_set() and version < 20_000:
                events = []
                for _ in range(chance.randint(1, 8)):
                    version += 1
                    kind = chance.choice(KINDS)
                    fields = chance.sample(sorted(VALUES[kind]), 2)
                    values = {name: chance.choice(VALUES[kind][name]) for name in fields}
                    entity_id = chance.choice([f"e{n}" for n in range(30)])
                    events.append(told(version, made(version, kind, entity_id, chance.choice([None, values, values]))))
                cycle.run(Batch(events=events))
                taken[cycle.model.generation] = dump(cycle)
        except BaseException as exc:  # noqa: BLE001 - shown by the test
            failures.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    past, look = PastModels(reader.tables, reader.kinds, max_bytes=2**20), random.Random(7)
    try:
        compared = 0
        while compared < 3 and not failures:
            known = sorted(taken)
            seq = look.choice(known[len(known) // 3 :])
            assert read(reader, past, seq, limit=20) == taken[seq]
            compared += len(known) > 20
    finally:
        is_done.set()
        thread.join()
        past.close()
    assert not failures, failures
    journal, cut = writer.tables.journal, sorted(taken)[len(taken) // 2]
    with writer.database.begin() as connection:
        connection.execute(journal.delete().where(journal.c.seq <= cut))
    past = PastModels(reader.tables, reader.kinds, max_bytes=2**20)
    shown = read(reader, past, cut, limit=100)
    past.close()
    for name, entities in taken[cut].items():  # exact but for the seqs of changes that are gone
        for entity_id, entity in entities.items():
            assert shown[name][entity_id].pop("seq") in (entity.pop("seq"), None)
    assert shown == taken[cut]
    with writer.connect() as connection, pytest.raises(MomentPurged) as gone:
        moment_of(connection, writer.tables, read_position(connection, writer.tables), cut - 1)
    assert gone.value.seq == cut
