# SPDX-License-Identifier: Apache-2.0
"""The columns of a list in a file, and its entries, written page by page: JSON lines, CSV and Parquet.

The columns follow from the schema that the API's document has of the entries.

Lists and objects are JSON text in CSV and Parquet. A null is an empty cell in CSV. In CSV an empty text is the same as
a null; the other formats distinguish them. In CSV a text that begins like a formula gets an apostrophe. Parquet needs
pyarrow, the extra ``parquet``.
"""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import IO, Any, Final, Literal

import msgspec

from watcher_sync.client.errors import ClientError
from watcher_sync.client.models import Entity

Type = Literal["integer", "number", "boolean", "time", "text", "json"]


class Column(msgspec.Struct, frozen=True):
    """One field of the entries."""

    name: str
    type: Type
    """``json``: a list or an object."""


def columns_of(document: Mapping[str, Any], path: str) -> list[Column]:
    """The fields of a list's entries.

    :param document: the API's OpenAPI document.
    :param path: of the list; the last part names the member of the answer.
    :raises KeyError: the document has no such list.
    """
    answer = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    entry = answer["properties"][path.rpartition("/")[2]]["items"]
    return [Column(name, _type(schema)) for name, schema in entry["properties"].items() if name != "versions"]


_TYPES: Final[Mapping[Any, Type]] = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "text"}


def _type(schema: Mapping[str, Any]) -> Type:
    choices = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if len(choices) != 1:
        return "json"
    schema = choices[0]
    kind = schema.get("type")
    if kind is None and all(isinstance(each, (str, NoneType)) for each in schema.get("enum", [0])):
        kind = "string"
    if kind == "string" and schema.get("format") == "date-time":
        return "time"
    return "json" if isinstance(kind, list) else _TYPES.get(kind, "json")


_encode = msgspec.json.encode

_FORMULA_STARTS: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""The last four are the wide forms of the first four."""


class LibraryMissing(ClientError):
    """The format needs a library that is not installed."""


class JsonLines:
    """One object a line."""

    def __init__(self, file: IO[bytes], columns: Sequence[Column]) -> None:
        self._file = file
        self._names = [column.name for column in columns]

    def write(self, entities: Sequence[Entity]) -> None:
        """Write a page."""
        for entity in entities:
            document = {name: entity[name] for name in self._names if name in entity}
            self._file.write(_encode(document) + b"\n")

    def close(self) -> None:
        """JSON lines have no end."""


class Csv:
    """A header, and one record an entity (RFC 4180, UTF-8)."""

    def __init__(self, file: IO[bytes], columns: Sequence[Column]) -> None:
        self._columns = columns
        self._text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self._out = csv.writer(self._text)
        self._out.writerow([column.name for column in columns])

    def write(self, entities: Sequence[Entity]) -> None:
        """Write a page."""
        self._out.writerows([_cell(entity.get(column.name)) for column in self._columns] for entity in entities)

    def close(self) -> None:
        """Write what is buffered."""
        self._text.detach()


class Parquet:
    """A column a field, and a row group a page.

    :raises LibraryMissing: pyarrow is not installed.
    """

    def __init__(self, file: IO[bytes], columns: Sequence[Column]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise LibraryMissing("Parquet needs pyarrow: pip install 'watcher-sync[parquet]'") from None
        types = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", tz="UTC"),
            "text": pyarrow.string(),
            "json": pyarrow.string(),
        }
        self._columns = columns
        self._arrow = pyarrow
        self._schema = pyarrow.schema([(column.name, types[column.type]) for column in columns])
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, entities: Sequence[Entity]) -> None:
        """Write a page."""
        arrays = [
            self._arrow.array([_typed(entity.get(column.name), column) for entity in entities], self._schema[i].type)
            for i, column in enumerate(self._columns)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


FORMATS: dict[str, type[JsonLines | Csv | Parquet]] = {"jsonl": JsonLines, "csv": Csv, "parquet": Parquet}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _encode(value).decode() if isinstance(value, (list, dict)) else without_formula(value)


def without_formula(value: Any) -> Any:
    """A cell of CSV in which a spreadsheet finds no formula: such a text gets an apostrophe. A number stays one.

    Source: OWASP, CSV Injection.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _typed(value: Any, column: Column) -> Any:
    if value is None:
        return None
    if column.type == "json":
        return _encode(value).decode()
    return msgspec.convert(value, datetime.datetime) if column.type == "time" else value
