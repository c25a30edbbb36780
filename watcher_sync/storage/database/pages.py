# SPDX-License-Identifier: Apache-2.0
"""Pages of a query that are bounded in rows and in bytes: one statement for each, on every database.

SQLite makes a row when it is fetched, so a page ends where the reader stops. The drivers of PostgreSQL and MariaDB read
a whole result into memory. There the statement itself sums the bytes, and ends at most one row after the page.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
import sqlalchemy as sa

MAX_PAGE_BYTES: Final = 8_388_608
"""Bytes of documents after which a page ends."""

_PART_ROWS: Final = 50
"""Rows that SQLite makes at once: so many may be beyond the last byte that is wanted."""

_Row = TypeVar("_Row")


class RowPage(msgspec.Struct, Generic[_Row], frozen=True):
    """The rows of a page."""

    rows: list[_Row]
    more: bool
    """Whether rows follow after the last one."""


class DecodedPage(msgspec.Struct, Generic[_Row], frozen=True):
    """The rows of a page, each of which is decoded when it is read."""

    rows: Iterator[_Row]
    more: bool
    """Whether rows follow after the last one."""


def bounded_page(
    connection: sa.Connection,
    query: sa.Select[*tuple[Any, ...]],
    order: Sequence[sa.ColumnElement[Any]],
    limit: int,
    *,
    key: sa.Column[Any],
    documents: Mapping[int, sa.Column[Any]],
    keys_first: bool = False,
    max_bytes: int = MAX_PAGE_BYTES,
) -> RowPage[Sequence[Any]]:
    """The first rows of a query: at most ``limit``, whose documents have about ``max_bytes``, but at least one.

    :param query: of one table, without an order.
    :param order: of columns of the table; the last one is the key, up or down.
    :param documents: position in a row -> the column whose text is there.
    :param keys_first: choose the keys of the page before any document is read or sorted, as for each order that is not
        the key's. Conditions may then be answered by an index.
    """
    if keys_first or len(order) > 1:
        page = _chosen_first(connection, query, order, limit, key, documents.values(), max_bytes)
    elif connection.dialect.name == "sqlite" or not documents:
        page = query
    else:
        page = query.where(_up_to(connection, query, order[0], limit, key, documents.values(), max_bytes))
    rows: list[Sequence[Any]] = []
    total = 0
    with connection.execute(page.order_by(*order).limit(limit + 1)) as result:
        for row in itertools.chain.from_iterable(result.partitions(_PART_ROWS)):
            if len(rows) == limit or total >= max_bytes:
                return RowPage(rows, True)
            rows.append(row)
            for position in documents:
                if (text := row[position]) is not None:
                    total += len(text) if text.isascii() else len(text.encode())
    return RowPage(rows, False)


def document_bytes(connection: sa.Connection, documents: Iterable[sa.Column[Any]]) -> sa.ColumnElement[int]:
    """The bytes of a row's documents together, which the database counts without sending them."""
    sizes: list[sa.ColumnElement[int]] = [sa.literal_column("0", sa.Integer())]
    for column in documents:
        text = sa.type_coerce(column, sa.Text())
        is_sqlite = connection.dialect.name == "sqlite"  # Before 3.43 it has no octet_length.
        size = sa.func.length(sa.cast(text, sa.LargeBinary)) if is_sqlite else sa.func.octet_length(text)
        sizes.append(sa.func.coalesce(size, 0))
    return functools.reduce(operator.add, sizes)


def _up_to(
    connection: sa.Connection,
    query: sa.Select[*tuple[Any, ...]],
    order: sa.ColumnElement[Any],
    limit: int,
    key: sa.Column[Any],
    documents: Iterable[sa.Column[Any]],
    max_bytes: int,
) -> sa.ColumnElement[bool]:
    """Whether a row, in the order of the key, is of the page or the first after it."""
    size = document_bytes(connection, documents).label("size")
    chosen = query.with_only_columns(key, size).order_by(order).limit(limit + 1).subquery()
    is_descending = order is not key
    at = chosen.c[key.name]
    before = sa.func.sum(chosen.c.size).over(order_by=at.desc() if is_descending else at, rows=(None, -2))
    sized = sa.select(at, before.label("before")).subquery()
    last = (sa.func.min if is_descending else sa.func.max)(sized.c[key.name])
    end = sa.select(last).where(sa.func.coalesce(sized.c.before, 0) < max_bytes).scalar_subquery()
    return key >= end if is_descending else key <= end


def _chosen_first(
    connection: sa.Connection,
    query: sa.Select[*tuple[Any, ...]],
    order: Sequence[sa.ColumnElement[Any]],
    limit: int,
    key: sa.Column[Any],
    documents: Iterable[sa.Column[Any]],
    max_bytes: int,
) -> sa.Select[*tuple[Any, ...]]:
    """The query for the rows of the page and the first after it, by their keys."""
    chosen = query.with_only_columns(key).order_by(*order).limit(limit + 1)
    before = sa.func.sum(document_bytes(connection, documents)).over(order_by=order, rows=(None, -2))
    keys = sa.select(key, before.label("before"))
    if connection.dialect.name == "mysql":  # It has no limit in a subquery of IN.
        first = chosen.cte("chosen")
        keys = keys.join(first, key == first.c[key.name])
    else:
        keys = keys.where(_is_of(connection, key, chosen))
    sized = keys.cte("sized")
    is_wanted = sa.func.coalesce(sized.c.before, 0) < max_bytes
    page = sa.select(*query.selected_columns)
    if connection.dialect.name == "postgresql":
        return page.where(_is_of(connection, key, sa.select(sized.c[key.name]).where(is_wanted)))
    return page.join(sized, key == sized.c[key.name]).where(is_wanted)


def _is_of(connection: sa.Connection, key: sa.Column[Any], keys: sa.Select[*tuple[Any, ...]]) -> sa.ColumnElement[bool]:
    """Whether a key is one of a query's, each of which is found by the index.

    PostgreSQL joins without the index where its statistics say that the table has one row. They do until it analyses
    the table, a minute after many rows came.
    """
    if connection.dialect.name == "postgresql":
        return key == sa.any_(sa.func.array(keys.scalar_subquery()))
    return key.in_(keys)
