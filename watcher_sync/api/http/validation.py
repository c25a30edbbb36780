# SPDX-License-Identifier: Apache-2.0
"""Validates documents against JSON Schemas (draft 2020-12), and names the wrong fields in problem details.

A problem has the JSON Pointers of the first wrong fields, at most :data:`MAX_ERRORS`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jsonschema
import msgspec

from watcher_sync.api.http.problems import FieldProblem, Problem
from watcher_sync.api.http.schemas import Schema
from watcher_sync.wire.fields import BadEnvelope, parse_time

FORM = "x-form"
"""Member of a schema: which values match it, in words for the problem."""

MAX_ERRORS = 10
"""The number of errors after which the validation of a document stops."""

_SIZES = frozenset({"maxItems", "maxProperties"})
"""Keywords that are evaluated first, and end the validation: the entries of what is too large are not validated."""

_FORMATS = jsonschema.FormatChecker(formats=())
"""The checked formats. Those of jsonschema need further libraries; without these they accept every text."""


def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or parse_time(value, "") is not None


_FORMATS.checks("date-time", raises=BadEnvelope)(_is_date_time)


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of a schema: ``$`` outside of a character class means the end of the text.

    So ECMA-262 has it, which JSON Schema and OpenAPI prescribe. In Python's regular expressions ``$`` also matches
    before a newline at the end. The schemas have ``$``, because clients read them; the validation uses ``\\Z``.
    """
    parts: list[str] = []
    in_class = is_escaped = False
    for character in pattern:
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character in "[]":
            in_class = character == "["
        elif character == "$" and not in_class:
            parts.append(r"\Z")
            continue
        parts.append(character)
    return re.compile("".join(parts))


def _check_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and compiled(pattern).search(instance) is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_any_of(validator: Any, choices: Any, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """With a value or null, the errors of the value. The library would collect all of them, and name none."""
    others = [choice for choice in choices if choice != {"type": "null"}]
    if len(others) == len(choices) or len(others) != 1:
        yield from jsonschema.Draft202012Validator.VALIDATORS["anyOf"](validator, choices, instance, _schema)
    elif instance is not None:
        yield from validator.descend(instance, others[0])


_VALIDATOR: Any = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"pattern": _check_pattern, "anyOf": _check_any_of}
)
"""The validator of draft 2020-12 with this meaning of ``pattern``, and with the errors of a value or null."""


def validator(schema: Schema) -> jsonschema.Draft202012Validator:
    """Returns the validator of a schema. It is made once for each schema, and used by all threads."""
    return _validator(msgspec.json.encode(schema))


@functools.cache
def _validator(document: bytes) -> jsonschema.Draft202012Validator:
    schema = _sizes_first(msgspec.json.decode(document))
    jsonschema.Draft202012Validator.check_schema(schema)
    made: jsonschema.Draft202012Validator = _VALIDATOR(schema, format_checker=_FORMATS)
    return made


def _sizes_first(schema: Any) -> Any:
    """The schema with its keywords in the order in which they are to be evaluated."""
    if isinstance(schema, list):
        return [_sizes_first(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    order = sorted(schema, key=lambda name: name not in _SIZES)
    return {name: _sizes_first(schema[name]) for name in order}


def require_valid(
    document: Any,
    against: jsonschema.Draft202012Validator,
    where: str,
    name: str,
    *,
    prefix: str = "",
    repeated: Collection[str] = (),
) -> None:
    """Requires that a document matches a schema.

    :param where: query, body, header or path.
    :param name: the document's name in the problem, if no single field is wrong.
    :param repeated: fields that a request has once for each of their entries. The problem names the field alone.
    :param prefix: what precedes the names of the fields in the request, but not in the document.
    :raises Problem: 400, with the wrong fields.
    """
    errors = _first_errors(against, document)
    if not errors:
        return
    found = [FieldProblem(where, pointer(_path(e, repeated), prefix), _message(e)) for e in errors]
    at = found[0].pointer.lstrip("/") or name
    raise Problem(400, f"{at}: {found[0].detail}", errors=found)


def _first_errors(against: jsonschema.Draft202012Validator, document: Any) -> list[jsonschema.ValidationError]:
    """The first errors, by their path. The validation stops there, and at an array or object that is too large."""
    found: list[jsonschema.ValidationError] = []
    for error in against.iter_errors(document):
        found.append(error)
        if len(found) == MAX_ERRORS or error.validator in _SIZES:
            break
    return sorted(found, key=lambda error: [str(part) for part in error.absolute_path])


def _path(error: jsonschema.ValidationError, repeated: Collection[str] = ()) -> list[Any]:
    """The path of the error. For a missing or an unknown field it is the path of that field."""
    path = list(error.absolute_path)
    if path and path[0] in repeated and isinstance(path[-1], int):
        path.pop()
    instance: Any = error.instance
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in instance]
        path += missing[:1]
    elif error.validator == "additionalProperties" and isinstance(error.schema, dict):
        unknown = [name for name in instance if name not in error.schema.get("properties", {})]
        path += unknown[:1]
    return path


def _message(error: jsonschema.ValidationError) -> str:
    value: Any = error.validator_value
    if error.validator in ("pattern", "minLength", "type") and isinstance(error.schema, dict) and FORM in error.schema:
        return f"is not {error.schema[FORM]}"
    if error.validator == "maximum":
        return f"is above the maximum of {value}"
    if error.validator == "minimum":
        return f"is below the minimum of {value}"
    if error.validator == "required":
        return "is missing"
    if error.validator == "type":
        return f"is not of type {value if isinstance(value, str) else ' or '.join(value)}"
    if error.validator == "enum":
        return f"is not one of {', '.join(map(str, value))}"
    if error.validator == "additionalProperties":
        return "is not a known field"
    if error.validator == "maxItems":
        return f"has more than {value} entries"
    if error.validator == "maxProperties":
        return f"has more than {value} fields"
    return error.message if len(error.message) < 300 else f"does not match the schema ({error.validator})"


def pointer(path: Sequence[Any], prefix: str = "") -> str:
    """The JSON Pointer of a path (RFC 6901)."""
    parts = [str(part).replace("~", "~0").replace("/", "~1") for part in path]
    return "".join(f"/{prefix if i == 0 else ''}{part}" for i, part in enumerate(parts))
