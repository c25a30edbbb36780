# SPDX-License-Identifier: Apache-2.0
"""Reads hosts, aggregates and servers of one generation from the tables, as the JSON text of one document.

An object column is JSON text already, and goes into the document as it is. The text of the last generation is cached in
pages, sorted by id. The next reading asks the journal which entities changed since, and encodes only those.

Guaranteed: a document has exactly the state of its generation. The cache has no lock, because a cached state is
immutable. Each reading checks that the journal still has the row at which the state was read. So a restored database,
or a connection that sees an older generation, leads to a complete reading.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.extensions.openstack.extra_specs import (
    PCI_CLASS_PREFIX,
    NumaRequest,
    PciRequest,
    numa_request,
    pci_requests,
)
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.read.entity_reader import EntityReader
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.schema.tables import Tables

FIELDS_LEFT_OUT: Final = {
    "aggregate": frozenset[str](),
    "compute_node": frozenset({"last_heard"}),
    "instance": frozenset(
        {"host_name", "user_id", "locked_reason", "key_name", "ip_addresses", "fault_type", "fault_message"}
    ),
}
"""Kind -> its fields that are not in the document: no placement needs them, or they change without a seq."""

_MAX_CHANGES = 5000
"""Journal rows since the cached state. After more of them, a complete reading costs about as much."""

_PAGE_ROWS: Final = 100
"""Entities of a new page; a page with twice as many is split."""

_encode = msgspec.json.Encoder().encode


def fields_of(kind: Kind) -> tuple[str, ...]:
    """The fields of a kind in the document, without those that are computed for it."""
    return tuple(name for name in kind.public if name not in FIELDS_LEFT_OUT[kind.name])


def begin(generation: int) -> bytes:
    """The first bytes of a document, which need no reading."""
    return b'{"generation":%d' % generation


class _State(msgspec.Struct, frozen=True):
    """The text of one generation."""

    generation: int
    mark: tuple[Any, ...]
    """What tells the journal row of this generation from that of another journal."""
    lists: dict[str, Pages]
    """Kind -> its entities."""


class ComputeModelReader:
    """Reads the documents. For any thread."""

    def __init__(self, tables: Tables, kinds: Kinds, dialect: str) -> None:
        """:param dialect: sqlite, postgresql or mysql."""
        self._tables = tables
        self._aggregates = _reader(tables, kinds["aggregate"], dialect)
        self._nodes = _reader(tables, kinds["compute_node"], dialect, "aggregates", "pci")
        self._instances = _reader(tables, kinds["instance"], dialect, "numa", "pci")
        self._state: _State | None = None

    def read(self, connection: sa.Connection, generation: int) -> Iterator[bytes]:
        """The document without its begin (:func:`begin`), in pieces. All of it is read when this returns.

        :param connection: in a transaction with a stable view, that has read the journal's head.
        :param generation: the seq of that head.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated():
            lists = self._read(connection, generation)
        return _pieces(lists)

    def _read(self, connection: sa.Connection, generation: int) -> dict[str, Pages]:
        base = self._state
        if (
            base is None
            or not 0 <= generation - base.generation <= _MAX_CHANGES
            or base.mark != self._mark(connection, base.generation)
        ):
            base = None
        if base is None:
            lists = {
                "aggregate": pages_of(self._encode_aggregates(connection)),
                "compute_node": pages_of(self._encode_nodes(connection)),
                "instance": pages_of(self._encode_instances(connection)),
            }
        elif base.generation == generation:
            return base.lists
        else:
            lists = self._merged(connection, base)
        if mark := self._mark(connection, generation):
            self._state = _State(generation, mark, lists)
        return lists

    def _merged(self, connection: sa.Connection, base: _State) -> dict[str, Pages]:
        """The cached text with what changed since. The journal still has all of that, as it has the row before."""
        t, changed, lists = self._tables.journal, {kind: set[str]() for kind in base.lists}, dict(base.lists)
        query = sa.select(t.c.kind, t.c.entity_id).where(t.c.seq > base.generation, t.c.kind.in_(list(changed)))
        for kind, entity_id in connection.execute(query):
            changed[kind].add(entity_id)
        if changed["aggregate"]:  # they are part of each host, too
            lists["aggregate"] = pages_of(self._encode_aggregates(connection))
            lists["compute_node"] = pages_of(self._encode_nodes(connection))
        elif ids := changed["compute_node"]:
            lists["compute_node"] = merge(base.lists["compute_node"], ids, self._encode_nodes(connection, ids))
        if ids := changed["instance"]:
            lists["instance"] = merge(base.lists["instance"], ids, self._encode_instances(connection, ids))
        return lists

    def _encode_aggregates(self, connection: sa.Connection) -> dict[str, bytes]:
        at = self._aggregates.position["id"]
        return {row[at]: self._aggregates.encode(row) for row in self._aggregates.read(connection)}

    def _encode_nodes(self, connection: sa.Connection, ids: Collection[str] | None = None) -> dict[str, bytes]:
        groups: dict[str, list[dict[str, Any]]] = {}
        at = self._aggregates.position
        for row in self._aggregates.read(connection):
            group = {"id": row[at["id"]], "number": row[at["number"]], "name": row[at["name"]]}
            for host in msgspec.json.decode(row[at["hosts"]] or "[]"):
                groups.setdefault(host, []).append(group)
        host, inventories = self._nodes.position["id"], self._nodes.position["inventories"]
        return {
            row[host]: self._nodes.encode(row, (groups.get(row[host], []), _pci_inventories(row[inventories])))
            for row in self._nodes.read(connection, ids)
        }

    def _encode_instances(self, connection: sa.Connection, ids: Collection[str] | None = None) -> dict[str, bytes]:
        rows, entity_id = self._instances, self._instances.position["id"]
        specs = rows.position["extra_specs"]
        return {row[entity_id]: rows.encode(row, _requests(row[specs])) for row in rows.read(connection, ids)}

    def _mark(self, connection: sa.Connection, seq: int) -> tuple[Any, ...]:
        """The journal row of a seq, as far as it tells journals apart; empty: the journal has no such row."""
        t = self._tables.journal
        query = sa.select(t.c.time, t.c.kind, t.c.entity_id, t.c.event_id).where(t.c.seq == seq)
        row = connection.execute(query).one_or_none()
        return () if row is None else tuple(row)


def _pieces(lists: dict[str, Pages]) -> Iterator[bytes]:
    for kind, name in (("aggregate", "aggregates"), ("compute_node", "compute_nodes"), ("instance", "instances")):
        yield b',"%b":[' % name.encode()
        for i, page in enumerate(lists[kind]):
            yield page.text if i else page.text[1:]
        yield b"]"
    yield b"}"


def _reader(tables: Tables, kind: Kind, dialect: str, *computed: str) -> EntityReader:
    return EntityReader(tables, kind, dialect, fields_of(kind), computed=computed)


@functools.lru_cache(maxsize=4096)
def _requests(extra_specs: str | None) -> tuple[NumaRequest | None, list[PciRequest] | None]:
    """What the extra specs ask for; of flavors there are few, and of servers many."""
    if extra_specs is None:
        return None, None
    specs = msgspec.json.decode(extra_specs)
    return numa_request(specs), pci_requests(specs)


@functools.lru_cache(maxsize=4096)
def _pci_inventories(inventories: str | None) -> msgspec.Raw:
    """The inventories of PCI devices, as JSON."""
    known = msgspec.json.decode(inventories) if inventories else None
    chosen = None if known is None else {n: i for n, i in known.items() if n.startswith(PCI_CLASS_PREFIX)}
    return msgspec.Raw(_encode(chosen))


class EncodedPage(msgspec.Struct, frozen=True, gc=False):
    """Some entities in immutable text, which is ready to be sent: a comma precedes each.

    So the entities of a page are slices of its text, and exist once in memory.
    """

    ids: tuple[str, ...]
    ends: tuple[int, ...]
    """Where the text of each entity ends."""
    text: bytes

    def entities(self) -> Iterator[tuple[str, bytes]]:
        """Each id with the text of its entity."""
        begin = 0
        for entity_id, end in zip(self.ids, self.ends, strict=True):
            yield entity_id, self.text[begin + 1 : end]
            begin = end


Pages = tuple[EncodedPage, ...]
"""In the order of the ids; no page is empty."""


def pages_of(encoded: Mapping[str, bytes]) -> Pages:
    """The pages of these entities."""
    return tuple(_split(sorted(encoded.items())))


def merge(pages: Pages, changed: Collection[str], encoded: Mapping[str, bytes]) -> Pages:
    """The pages after some entities changed.

    :param changed: their ids.
    :param encoded: those of them that exist.
    """
    if not pages:
        return pages_of(encoded)
    firsts = [page.ids[0] for page in pages]
    touched: dict[int, list[str]] = {}
    for entity_id in changed:
        touched.setdefault(max(0, bisect.bisect_right(firsts, entity_id) - 1), []).append(entity_id)
    merged: list[EncodedPage] = []
    for number, page in enumerate(pages):
        ids = touched.get(number)
        if ids is None:
            merged.append(page)
            continue
        entities = dict(page.entities())
        for entity_id in ids:
            text = encoded.get(entity_id)
            if text is None:
                entities.pop(entity_id, None)
            else:
                entities[entity_id] = text
        merged += _split(sorted(entities.items()))
    return tuple(merged)


def _split(entities: Sequence[tuple[str, bytes]]) -> Iterator[EncodedPage]:
    """One page, or several where they are too many for one."""
    size = _PAGE_ROWS if len(entities) >= 2 * _PAGE_ROWS else max(1, len(entities))
    for start in range(0, len(entities), size):
        yield _page(entities[start : start + size])


def _page(entities: Iterable[tuple[str, bytes]]) -> EncodedPage:
    ids, ends, texts, end = [], [], [b""], 0
    for entity_id, text in entities:
        end += len(text) + 1
        ids.append(entity_id)
        ends.append(end)
        texts.append(text)
    return EncodedPage(tuple(ids), tuple(ends), b",".join(texts))
