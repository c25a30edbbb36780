# SPDX-License-Identifier: Apache-2.0
"""Conditions on the fields of one kind, as SQL with the same meaning on SQLite, PostgreSQL and MariaDB.

Texts are compared character by character: upper case is not lower case, and a trailing space counts. Their order is
that of their code points. Values are bound parameters; no text of a request becomes SQL.

``neq`` and ``nin`` are the negations of ``eq`` and ``in``: they match an entity without a value, too. Nothing else
does. A list has a value if it contains it. A member is a text, an integer or a truth value directly in an object.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from watcher_sync.model.kinds import Kind
from watcher_sync.storage.database.types import json_text

Operator = Literal["eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "prefix"]

_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_POSTGRESQL_ORDER: Final = {"gt": "~>~", "gte": "~>=~", "lt": "~<~", "lte": "~<=~"}
"""The operators that compare the characters, whatever the collation of the database is."""

_FEW_TEXTS: Final = 4
"""So many texts MariaDB searches in a list one by one, which costs less than to make a table of the list."""

_LAST_CODE_POINT: Final = 0x10FFFF
_LAST_BEFORE_SURROGATES: Final = 0xD7FF
_FIRST_AFTER_SURROGATES: Final = 0xE000

_ENTRIES: Final[sa.ColumnElement[Any]] = sa.literal_column(
    "'$[*]' COLUMNS (value VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')"
)
"""The entries of a list as the rows of MariaDB's JSON_TABLE."""

Clause = sa.ColumnElement[bool]


class FieldCondition(msgspec.Struct, frozen=True):
    """One condition.

    :ivar field: a declared field of the kind, or ``id``.
    :ivar values: of the field's type, one or, for ``in`` and ``nin``, several; texts for a list and for a member.
    :ivar member: the name of a member of the field's object.
    """

    field: str
    operator: Operator
    values: tuple[Any, ...]
    member: str | None = None


def clause(kind: Kind, table: sa.Table, dialect: str, condition: FieldCondition) -> Clause:
    """The SQL of a condition.

    :param dialect: sqlite, postgresql or mysql.
    """
    column, values = table.c[condition.field], condition.values
    python = str if condition.field == "id" else kind.fields[condition.field].python
    if condition.member is not None:
        return _of_member(column, dialect, condition.operator, condition.member, values)
    if python is list:
        contained = sa.func.coalesce(_contains(column, dialect, values), sa.false())
        return sa.not_(contained) if condition.operator in ("neq", "nin") else contained
    if condition.operator in _ORDER:
        return _compares(column, dialect, condition.operator, values[0])
    if condition.operator == "prefix":
        return _begins(column, dialect, values[0])
    same = _equals(column, dialect, values) if python is str else column.in_(values)
    return _negated(column, same) if condition.operator in ("neq", "nin") else same


def has_part(column: sa.ColumnElement[Any], dialect: str, text: str) -> Clause:
    """Whether a column contains a text anywhere. No index serves."""
    if dialect == "postgresql":
        return sa.func.strpos(column, text) > 0
    if dialect == "mysql":
        return sa.func.locate(text.encode(), sa.cast(column, sa.LargeBinary)) > 0
    return sa.func.instr(column, text) > 0


def is_among(column: sa.ColumnElement[Any], dialect: str, texts: Collection[str]) -> Clause:
    """Whether a text is one of any number of texts; an index over it serves."""
    if dialect == "postgresql":
        return column == sa.any_(_array(texts))
    if dialect == "mysql":  # Its binary collation ignores spaces at the end.
        exact = sa.cast(column, sa.LargeBinary).in_([text.encode() for text in texts])
        return sa.and_(column.in_(texts), exact)
    entry = sa.func.json_each(json_text(list(texts))).table_valued("value", name="wanted")
    return column.in_(sa.select(entry.c.value))


def _array(texts: Collection[str]) -> sa.ColumnElement[Any]:
    """Texts as one parameter of PostgreSQL."""
    return sa.cast(list(texts), postgresql.ARRAY(sa.Text()))


def _negated(value: sa.ColumnElement[Any], same: Clause) -> Clause:
    return sa.or_(value.is_(None), sa.not_(same))


def _equals(column: sa.ColumnElement[Any], dialect: str, texts: Collection[str]) -> Clause:
    if dialect != "mysql":
        return column.in_(texts) if len(texts) > 1 else column == next(iter(texts))
    # Its binary collation ignores spaces at the end.
    return sa.or_(*(sa.and_(column == text, sa.func.length(column) == len(text.encode())) for text in texts))


def _compares(column: sa.ColumnElement[Any], dialect: str, name: str, value: Any) -> Clause:
    if isinstance(value, str):
        if dialect == "postgresql":
            return column.op(_POSTGRESQL_ORDER[name], is_comparison=True)(value)
        if dialect == "mysql":
            column, value = sa.cast(column, sa.LargeBinary), value.encode()
    found: Clause = _ORDER[name](column, value)
    return found


def _begins(column: sa.ColumnElement[Any], dialect: str, prefix: str) -> Clause:
    """Whether a column begins with a text; an index over it serves."""
    end = _after(prefix)
    if dialect == "mysql":
        # It compares as if spaces followed the shorter text. So "web" is greater than "web\t", which LIKE misses when
        # it uses an index. The range serves the index, and the bytes decide.
        start = prefix.encode()
        exact = sa.func.left(sa.cast(column, sa.LargeBinary), len(start)) == start
        rest = sa.true() if end is None else column < end
        return sa.and_(column.is_not(None), column > prefix + "\0", rest, exact) if prefix else column.is_not(None)
    begin = _compares(column, dialect, "gte", prefix)
    return begin if end is None else sa.and_(begin, _compares(column, dialect, "lt", end))


def _after(prefix: str) -> str | None:
    """The first text after all that begin with the prefix; None: there is none."""
    for i in reversed(range(len(prefix))):
        code = ord(prefix[i])
        if code < _LAST_CODE_POINT:
            following = _FIRST_AFTER_SURROGATES if code == _LAST_BEFORE_SURROGATES else code + 1
            return prefix[:i] + chr(following)
    return None


def _contains(column: sa.Column[Any], dialect: str, texts: Sequence[str]) -> Clause:
    """Whether a list of texts contains one of them; NULL where there is no list."""
    document = sa.type_coerce(column, sa.Text())
    if dialect == "postgresql":
        return sa.func.jsonb_exists_any(sa.cast(document, postgresql.JSONB()), _array(texts), type_=sa.Boolean())
    if dialect == "mysql" and len(texts) <= _FEW_TEXTS:
        return sa.or_(*(sa.func.json_contains(document, json_text(text)) == 1 for text in texts))
    if dialect == "mysql":
        entry = sa.func.json_table(document, _ENTRIES).table_valued("value", name="entry")
        same: Clause = sa.cast(entry.c.value, sa.LargeBinary).in_([text.encode() for text in texts])
    else:
        entry = sa.func.json_each(document).table_valued("value", name="entry")
        same = is_among(entry.c.value, dialect, texts)
    return sa.select(sa.literal(1)).select_from(entry).where(same).correlate(column.table).exists()


def _of_member(column: sa.Column[Any], dialect: str, name: Operator, member: str, texts: Sequence[str]) -> Clause:
    value = _member(column, dialect, member)
    if dialect == "mysql":  # a cast to bytes has no collation
        value = sa.cast(value, sa.LargeBinary)
    if name == "prefix":
        start: Any = texts[0].encode() if dialect == "mysql" else texts[0]
        length = len(start)
        cut = sa.func.substr(value, 1, length) if dialect == "sqlite" else sa.func.left(value, length)
        begins: Clause = cut == start
        return begins
    same = value.in_([text.encode() for text in texts] if dialect == "mysql" else texts)
    # Each mention of the value reads the document again, so the negation must not test it for NULL by itself.
    return sa.not_(sa.func.coalesce(same, sa.false())) if name in ("neq", "nin") else same


def _member(column: sa.Column[Any], dialect: str, member: str) -> sa.ColumnElement[Any]:
    """The text of a member; NULL where there is none, or it is neither a text, an integer nor a truth value."""
    document = sa.type_coerce(column, sa.Text())
    path = f'$."{member}"'
    if dialect == "postgresql":
        # PostgreSQL has no text with a NUL character, and refuses the statement for a document that has one.
        has_no_nul = sa.or_(
            sa.func.strpos(document, r"\u0000") == 0, sa.not_(document.regexp_match(r"(^|[^\\])(\\\\)*\\u0000"))
        )
        found = sa.cast(sa.case((has_no_nul, document)), postgresql.JSON())[member]
        text, kinds = found.astext, sa.func.json_typeof(found)
        integer = sa.case((text.regexp_match("^-?[0-9]+$"), text))
        return sa.case((kinds.in_(("string", "boolean")), text), (kinds == "number", integer))
    if dialect == "mysql":
        found = sa.func.json_extract(document, path)
        text, kinds = sa.func.json_unquote(found), sa.func.json_type(found)
        return sa.case((kinds.in_(("STRING", "INTEGER", "BOOLEAN")), text))
    text = sa.cast(sa.func.json_extract(document, path), sa.Text())
    # In this form SQLite reads the type of the member once.
    return sa.case(
        {"text": text, "integer": text, "true": "true", "false": "false"}, value=sa.func.json_type(document, path)
    )
