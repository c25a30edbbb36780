# SPDX-License-Identifier: Apache-2.0
"""The filters of a list, in the form that OpenStack's API guidelines recommend: ``field=value``, ``field=op:value``.

::

    state=error                        the field has this value
    state=neq:active                   it has another value, or none
    vcpus=gt:4                         also gte:, lt:, lte:
    name=prefix:web                    it begins with this text
    host=in:compute-1,compute-2        also nin:; a value with a comma stands between double quotes
    labels[app]=web                    a member of an object; eq:, neq:, in:, nin:, prefix:

All filters have to match. A field may have several: ``created_at=gte:...&created_at=lt:...``. A list matches a value
that it contains. A value that begins like an operator follows ``eq:``.

The parameters and their schemas follow from the declaration of the kind. A request with another field, operator or
value is 400, and the problem says which ones there are.
"""

from __future__ import annotations

import datetime
import math
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import REPEATS
from watcher_sync.api.http.problems import bad_request
from watcher_sync.api.http.validation import FORM
from watcher_sync.model.kinds import Field, Kind
from watcher_sync.read.filters import FieldCondition, Operator
from watcher_sync.wire.fields import BadEnvelope, parse_time

MAX_OF_FIELD: Final = 4
"""Filters of one field, or of one member."""
MAX_MEMBERS: Final = 10
"""Members of one object in the filters of a request."""
MAX_FILTERS: Final = 20
"""Filters of a request: the database may compare each of them with every row of the kind."""
MAX_VALUES: Final = 100
"""Values of all filters of a request together."""
MAX_CHARS: Final = 2000
"""Characters of one filter."""

_TEXT_OPERATORS: Final = ("eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "prefix")
_NUMBER_OPERATORS: Final = ("eq", "neq", "in", "nin", "gt", "gte", "lt", "lte")
_TIME_OPERATORS: Final = ("eq", "neq", "gt", "gte", "lt", "lte")
_BOOLEAN_OPERATORS: Final = ("eq", "neq")
_ENTRY_OPERATORS: Final = ("eq", "neq", "in", "nin")
_WORD_OPERATORS: Final = ("eq", "neq", "in", "nin", "prefix")
_SEVERAL: Final = ("in", "nin")

_INTEGER: Final = "-?[0-9]{1,18}"
_NUMBER: Final = r"-?[0-9]{1,17}(?:\.[0-9]{1,21})?(?:[eE][+-]?[0-9]{1,3})?"
"""It matches each number as Python and JSON write it, which the client prints."""
_DAY: Final = (
    "(?:(?:19|20)[0-9]{2}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:(?:19|20)(?:0[48]|[2468][048]|[13579][26])|2000)-02-29)"
)
_TIME: Final = (
    rf"{_DAY}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])?"
)

_VALUE: Final = re.compile(r'"((?:[^"]|"")*)"(?=,|\Z)|([^,]*)')
_PREFIXED: Final = re.compile(f"({'|'.join(_TEXT_OPERATORS)}):(.*)", re.DOTALL)

_MEMBER_NAME: Final = r'^[^"\\\u0000-\u001f]{1,255}$'
"""Any name that Kubernetes or Nova allows. Without quotation marks it needs no escapes in a JSON path."""


def parameters(kind: Kind) -> dict[str, schemas.Schema]:
    """The query parameters that filter a list of this kind, and their schemas."""
    found = {"id": _repeated("id", _text_schema(_TEXT_OPERATORS))}
    for field in kind.fields.values():
        if field.python is dict:
            found[field.name] = _object_schema(field.name)
        elif (schema := _value_schema(field)) is not None:
            found[field.name] = _repeated(field.name, schema)
    return found


def conditions(kind: Kind, query: Mapping[str, Any], names: Iterable[str]) -> list[FieldCondition]:
    """The conditions of a request, whose query matches the schemas.

    :param names: the fields that its filters name.
    :raises Problem: 400 when there are too many filters, or too many values in all of them; it names the first one.
    """
    found: list[FieldCondition] = []
    values = 0
    for at, each in _conditions(kind, query, names):
        values += len(each.values)
        if len(found) == MAX_FILTERS:
            raise bad_request("query", at, f"the request has more than {MAX_FILTERS} filters")
        if values > MAX_VALUES:
            raise bad_request("query", at, f"the filters of the request have more than {MAX_VALUES} values")
        found.append(each)
    return found


def value_of(python: type, text: str) -> Any:
    """A value of a field in its type.

    :raises ValueError: it cannot be one.
    """
    if python is int:
        return int(text)
    if python is float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    if python is bool:
        return {"true": True, "false": False}[text.lower()]
    if python is datetime.datetime:
        return parse_time(text, "the value")
    return text.replace("\0", "")


def text_of(value: Any) -> str:
    """The text from which :func:`value_of` makes the value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _conditions(kind: Kind, query: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, FieldCondition]]:
    """Where each is in the request, and the condition."""
    for name in names:
        given = query[name]
        python = str if name == "id" else kind.fields[name].python
        words = {} if name == "id" else {word.lower(): word for word in kind.fields[name].words}
        if python is dict:
            for member, texts in dict(given).items():
                yield from (_condition(name, str, text, {}, member) for text in texts)
        else:
            yield from (_condition(name, python, text, words) for text in given)


def _condition(
    name: str, python: type, text: str, words: Mapping[str, str], member: str | None = None
) -> tuple[str, FieldCondition]:
    """:param words: in lower case -> as the field has it."""
    match = _PREFIXED.fullmatch(text)
    operator, rest = match.groups() if match else ("eq", text)
    texts = list(_split(rest)) if operator in _SEVERAL else [rest]
    at = f"/{name}" if member is None else f"/{name}/{member.replace('~', '~0').replace('/', '~1')}"
    try:
        values = tuple(value_of(python, words.get(each.lower(), each)) for each in texts)
    except (ValueError, KeyError, BadEnvelope):
        raise bad_request("query", at, f"{name} has a value that cannot be one of it") from None
    return at, FieldCondition(name, cast(Operator, operator), values, member)


def _split(text: str) -> Iterator[str]:
    """The values between commas."""
    at = 0
    while at <= len(text):
        match = _VALUE.match(text, at)
        assert match is not None  # the second alternative matches an empty text
        quoted, plain = match.groups()
        yield plain if quoted is None else quoted.replace('""', '"')
        at = match.end() + 1


def _repeated(name: str, schema: schemas.Schema) -> schemas.Schema:
    return {
        "type": "array",
        "items": schema,
        "minItems": 1,
        "maxItems": MAX_OF_FIELD,
        REPEATS: True,
        "description": f"Only entities with this {name}. The value is {schema[FORM]}. All filters have to match.",
    }


def _object_schema(name: str) -> schemas.Schema:
    value = _text_schema(_WORD_OPERATORS)
    return {
        "type": "object",
        "propertyNames": {
            "pattern": _MEMBER_NAME,
            FORM: "a name of 1 to 255 characters without quotation marks, backslashes and control characters",
        },
        "maxProperties": MAX_MEMBERS,
        "additionalProperties": {"type": "array", "items": value, "minItems": 1, "maxItems": MAX_OF_FIELD},
        FORM: f"{name}[NAME]=VALUE",
        "description": f"Only entities whose {name} has this member with this value, as {name}[NAME]=VALUE. The value "
        f"is {value[FORM]}.",
    }


def _value_schema(field: Field) -> schemas.Schema | None:
    """The schema of one filter; None: the field cannot be filtered."""
    if field.python is list:
        return _text_schema(_ENTRY_OPERATORS) if _has_texts(field) else None
    if field.python is int:
        return _pattern_schema("a whole number", _INTEGER, _NUMBER_OPERATORS)
    if field.python is float:
        return _pattern_schema("a number", _NUMBER, _NUMBER_OPERATORS)
    if field.python is bool:
        return _pattern_schema("true or false, in any case", _any_of("true", "false"), _BOOLEAN_OPERATORS)
    if field.python is datetime.datetime:
        return _pattern_schema("a time such as 2026-01-31T12:00:00Z", _TIME, _TIME_OPERATORS)
    if field.words:
        return _words_schema(field.words)
    return _text_schema(_TEXT_OPERATORS)


def _pattern_schema(what: str, value: str, operators: tuple[str, ...]) -> schemas.Schema:
    single = [name for name in operators if name not in _SEVERAL]
    pattern = f"^(?:(?:{'|'.join(single)}):)?{value}$"
    if "in" in operators:
        pattern += f"|^n?in:{value}(?:,{value})*$"
    return {"type": "string", "maxLength": MAX_CHARS, "pattern": pattern, FORM: f"{what}{_after_operators(operators)}"}


def _words_schema(words: tuple[str, ...]) -> schemas.Schema:
    """A word in any case; or after ``prefix:`` any text, for a word that the vocabulary lacks."""
    schema = _pattern_schema(f"one of {', '.join(words)}", _any_of(*words), _ENTRY_OPERATORS)
    form = f"one of {', '.join(words)}, in any case{_after_operators(_WORD_OPERATORS)}"
    return {**schema, "pattern": f"{schema['pattern']}|^prefix:[^\\u0000]*$", FORM: form}


def _any_of(*words: str) -> str:
    """A pattern for one of these words, in any case."""
    return f"(?:{'|'.join(''.join(map(_any_case, word)) for word in words)})"


def _any_case(character: str) -> str:
    lower, upper = character.lower(), character.upper()
    return re.escape(character) if lower == upper else f"[{lower}{upper}]"


def _text_schema(operators: tuple[str, ...]) -> schemas.Schema:
    refused = [name for name in _TEXT_OPERATORS if name not in operators]
    pattern = rf"^(?!(?:{'|'.join(refused)}):)[^\u0000]*$" if refused else r"^[^\u0000]*$"
    form = f"a text{_after_operators(operators)}"
    return {"type": "string", "minLength": 1, "maxLength": MAX_CHARS, "pattern": pattern, FORM: form}


def _after_operators(operators: tuple[str, ...]) -> str:
    single = ", ".join(f"{name}:" for name in operators if name not in _SEVERAL)
    several = "; or several, separated by commas, after in: or nin:" if "in" in operators else ""
    return f", alone or after one of {single}{several}"


def _has_texts(field: Field) -> bool:
    """Whether the entries of a list are texts."""
    return any(typing.get_args(hint) == (str,) for hint in (field.type, *typing.get_args(field.type)))
