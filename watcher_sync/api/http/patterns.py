# SPDX-License-Identifier: Apache-2.0
"""JSON Schema's ``pattern`` with the meaning of ECMA-262, which JSON Schema and OpenAPI prescribe.

In Python's regular expressions ``$`` also matches before a newline at the end, so ``"id\\n"`` would match ``^[a-z]+$``.
The schemas keep ``$``, because clients read them. The validation uses ``\\Z`` instead.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import jsonschema


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of a schema: ``$`` outside of a character class means the end of the text."""
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


def _check(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and compiled(pattern).search(instance) is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


Validator: Any = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _check})
"""The validator of draft 2020-12 with this meaning of ``pattern``."""
