# SPDX-License-Identifier: Apache-2.0
"""The Sphinx directives of the REST API.

``.. rest-reference::``
    Every operation, from the OpenAPI document.

``.. policy-rules::``
    Every rule of the policy, with its persona.

The document is made of the built-in kinds with authentication by Keystone, without a database and without network.
Operations that exist for every kind are described once, under ``/v1/{kinds}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from restructured_text import heading, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from watcher_sync.api.http import openapi
from watcher_sync.api.http.versions import release
from watcher_sync.assembly.api import installed_routes, list_rules
from watcher_sync.model.loading import load_kinds

_FIELD_FILTER = {
    "name": "{field}",
    "in": "query",
    "required": False,
    "schema": {"type": "array", "items": {"type": "string"}},
    "description": "Only entities with this value of a field of the kind, or with an operator such as gt:4.",
}

Operations = dict[tuple[str, str], dict[str, Any]]
"""(path, method) -> the operation of the document."""

_SAMPLE = "instance"
"""The kind whose operations stand for those of all kinds."""


def openapi_document() -> dict[str, Any]:
    """The document that ``/openapi.json`` serves with the default configuration."""
    return openapi.document(installed_routes(), release(), tokens=True)


def described(document: Mapping[str, Any]) -> Operations:
    """The operations that the page has: of those that every kind has alike, one."""
    sample = load_kinds()[_SAMPLE].plural
    plurals = {kind.plural for kind in load_kinds().values()} - {sample}
    found: Operations = {}
    for path, methods in document["paths"].items():
        first = path.removeprefix("/v1/").partition("/")[0]
        for method, operation in methods.items():
            if first in plurals and method in document["paths"].get(path.replace(first, sample, 1), {}):
                continue
            if first == sample:
                path, operation = path.replace(f"/v1/{sample}", "/v1/{kinds}", 1), _of_every_kind(operation, sample)
            found[path, method] = operation
    return found


def _of_every_kind(operation: Mapping[str, Any], sample: str) -> dict[str, Any]:
    """The operation of the sample in the words of all kinds, without the filters by the sample's fields."""
    fields = {"id", *load_kinds()[_SAMPLE].fields}
    return {
        **operation,
        "tags": ["entities of every kind"],
        "summary": operation["summary"].replace(sample, "entities").replace(f"an {_SAMPLE}", "an entity"),
        "x-policy-rule": operation["x-policy-rule"].replace(f"{sample}:", "{kinds}:"),
        "parameters": [p for p in operation["parameters"] if p["name"] not in fields or p["in"] != "query"]
        + ([_FIELD_FILTER] if any(p["name"] in fields for p in operation["parameters"]) else []),
    }


class RestReference(SphinxDirective):
    """``.. rest-reference::``"""

    has_content = False

    def run(self) -> list[nodes.Node]:
        self.content = StringList(list(page_lines(openapi_document())), source=type(self).__name__)
        return self.parse_content_to_nodes(allow_section_headings=True)


class PolicyRules(SphinxDirective):
    """``.. policy-rules::``"""

    has_content = False

    def run(self) -> list[nodes.Node]:
        self.content = StringList(list(rule_lines()), source=type(self).__name__)
        return self.parse_content_to_nodes()


def rule_lines() -> Iterator[str]:
    """A table of the rules, each with its lowest persona and the reason, without the rules that are personas."""
    rows = []
    for rule in sorted(list_rules(), key=lambda rule: rule.name):
        text = rule.description.rpartition(" For ")[2]
        if text != rule.description:
            rows.append((f"``{rule.name}``", *text.rstrip(".").split(", because ")))
    yield from table(("Rule", "Persona", "Because"), rows, widths="34 26 40")


def page_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The page in reStructuredText: a section for each tag, a subsection for each operation."""
    tags: dict[str, Operations] = {}
    for key, operation in described(document).items():
        tags.setdefault(operation["tags"][0].replace("_", " "), {})[key] = operation
    for tag, operations in sorted(tags.items()):
        yield from heading(tag.capitalize(), "-")
        for (path, method), operation in sorted(operations.items()):
            yield from operation_lines(path, method, operation)


def operation_lines(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """One operation in reStructuredText."""
    yield from heading(f"{method.upper()} {path}", "~")
    yield from (_escaped(f"{operation['summary'].rstrip('.')}."), "")
    if description := operation.get("description"):
        for paragraph in description.split("\n\n"):
            yield from (_escaped(" ".join(paragraph.split())), "")
    if rule := operation.get("x-policy-rule"):
        yield from (f":Policy: ``{rule}``", "")
    if parameters := operation["parameters"]:
        rows = [(f"``{p['name']}``", p["in"], schema_text(p["schema"]), _parameter_text(p)) for p in parameters]
        yield from table(("Parameter", "In", "Type", "Meaning"), rows, widths="20 10 25 45")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from (f"Body, ``{media}``:", "")
        yield from _body_lines(content["schema"])
    rows = [
        (f"``{status}``", _escaped(answer["description"]), _media(answer))
        for status, answer in sorted(operation["responses"].items())
    ]
    yield from table(("Status", "Meaning", "Media types"), rows, widths="10 55 35")


def schema_text(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "enum" in schema:
        return ", ".join(f"``{json.dumps(value)}``" for value in schema["enum"][:12]) + _more(schema["enum"], 12)
    if "const" in schema:
        return f"``{json.dumps(schema['const'])}``"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(schema_text(each) for each in schema[union]))
    kind = schema.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if text == "array" and isinstance(schema.get("items"), dict):
        text = f"array of {schema_text(schema['items'])}"
    limits = {name: schema[name] for name in ("format", "minimum", "maximum", "maxLength", "default") if name in schema}
    return text + (f" ({', '.join(f'{name} {value}' for name, value in limits.items())})" if limits else "")


def _body_lines(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    if not properties:
        yield from (f"   {schema_text(schema)}", "")
        return
    required = schema.get("required", ())
    rows = [
        (f"``{name}``", schema_text(each), "yes" if name in required else "", _escaped(each.get("description", "")))
        for name, each in properties.items()
    ]
    yield from table(("Field", "Type", "Required", "Meaning"), rows, widths="25 35 10 30")


def _parameter_text(parameter: Mapping[str, Any]) -> str:
    text = parameter.get("description") or parameter["schema"].get("description", "")
    return _escaped(" ".join(text.split())) + (" Required." if parameter["required"] else "")


def _media(answer: Mapping[str, Any]) -> str:
    return ", ".join(f"``{media}``" for media in answer.get("content", {}))


def _more(values: list[Any], shown: int) -> str:
    return f" and {len(values) - shown} others" if len(values) > shown else ""


def _escaped(text: str) -> str:
    """Text with what reStructuredText would read as markup escaped; literals remain literals."""
    parts = re.split(r"(``[^`]+``)", text)
    return "".join(p if number % 2 else re.sub(r"([*`_|\\])", r"\\\1", p) for number, p in enumerate(parts))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("policy-rules", PolicyRules)
    app.add_directive("rest-reference", RestReference)
    return {"version": "1", "parallel_read_safe": True}
