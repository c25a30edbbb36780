# SPDX-License-Identifier: Apache-2.0
"""Generates the OpenAPI 3.1 document from the operations of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from microversion_parse import Version

from watcher_sync.api.http import problems
from watcher_sync.api.http.microversions import HEADER, NEWEST, SERVICE_TYPE, is_newer
from watcher_sync.api.http.operation import JSON, REPEATS, RestOperation
from watcher_sync.api.http.rules import EVERYBODY

Route = tuple[str, object]
"""A URI template and its resource."""

_METHODS = ("get", "put", "post", "delete", "patch")

_PHRASES = {
    400: "The request is wrong; the problem names the wrong fields",
    401: "The request has no valid token",
    403: "The policy does not allow the request",
    404: "The resource does not exist",
    406: "The request accepts none of the media types",
    409: "The request conflicts with the present state, or with other writes for too long",
    410: "The journal does not reach back that far",
    412: "A condition of the request does not hold",
    413: "The body is too large",
    415: "The API does not accept the media type of the body",
    422: "The database cannot store a value of the request, or the body of a subscription is not JSON",
    429: "The caller exceeds its rate, or its share of the streams; retry later",
    500: "The server failed",
    503: "The database or another service is unavailable, or all streams are in use; retry later",
}


def operations(routes: Iterable[Route]) -> Iterator[tuple[str, str, RestOperation]]:
    """Yields (URI template, method, operation) of all routes.

    :raises TypeError: when a resource answers a method without a declaration.
    """
    for template, resource in routes:
        for method in _METHODS:
            responder = getattr(resource, f"on_{method}", None)
            if responder is None:
                continue
            declared = getattr(responder, "operation", None)
            if declared is None:
                raise TypeError(f"{method.upper()} {template} is no operation")
            yield template, method, declared


def document(routes: Iterable[Route], release: str, version: Version = NEWEST, *, tokens: bool) -> dict[str, Any]:
    """Makes the whole document.

    :param release: the release of this package.
    :param tokens: whether a request needs a token.
    :param version: the microversion that it describes.
    """
    paths: dict[str, dict[str, Any]] = {}
    for template, method, declared in operations(routes):
        if not is_newer(declared.since, version):
            paths.setdefault(template, {})[method] = _operation(template, method, declared.at(version), tokens=tokens)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "watcher_sync",
            "version": release,
            "summary": "One live, ordered, persisted model of a cloud",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": f"The operations under /v1 as a request with {HEADER}: {SERVICE_TYPE} {version} has them. "
            "A path with GET has HEAD, too: the same answer without its body.",
        },
        "x-microversion": str(version),
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": paths,
        "components": {
            "schemas": {"Problem": problems.SCHEMA},
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _operation(template: str, method: str, declared: RestOperation, *, tokens: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _operation_id(template, method),
        "summary": declared.summary,
        "tags": [declared.tag],
        "parameters": [
            *_path_parameters(template, declared),
            *_query_parameters(declared),
            *_header_parameters(declared),
        ],
        "responses": {str(status): _answer(answer) for status, answer in declared.responses.items()},
        "x-policy-rule": " or ".join(rule.name for rule in declared.rules),
    }
    if declared.description:
        described["description"] = declared.description
    if declared.streams:
        described["x-streams"] = True
    guarded = tokens and all(rule.default != EVERYBODY for rule in declared.rules)
    if guarded:
        described["security"] = [{"token": []}]
    if declared.body is not None:
        content = {media: {"schema": schema} for media, schema in declared.body.schemas.items()}
        described["requestBody"] = {"required": declared.body.required, "content": content}
    writes = {409} if method != "get" else set()
    limited = {429} if writes or declared.streams else set()
    for status in sorted({*declared.errors, *_validation_errors(declared, guarded=guarded), *writes, *limited}):
        described["responses"][str(status)] = {
            "description": _PHRASES[status],
            "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return described


def _validation_errors(declared: RestOperation, *, guarded: bool) -> Iterator[int]:
    """The statuses with which the validation of a request may answer."""
    yield from (400, 406, 500, 503)
    if guarded:
        yield from (401, 403)
    if declared.body is not None:
        yield from (declared.body.not_json, 413, 415)


def _operation_id(template: str, method: str) -> str:
    words = re.findall(r"\w+", template.removeprefix("/v1"))
    return "_".join([method, *words]) if words else f"{method}_{'v1' if template.startswith('/v1') else 'root'}"


def _parameters(template: str, declared: RestOperation) -> Iterator[dict[str, Any]]:
    yield from _path_parameters(template, declared)
    yield from _query_parameters(declared)
    yield from _header_parameters(declared)


def _path_parameters(template: str, declared: RestOperation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", template):
        schema = declared.path.get(name, {"type": "string", "minLength": 1})
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(declared: RestOperation) -> Iterator[dict[str, Any]]:
    for name, schema in declared.query["properties"].items():
        parameter = {
            "name": name,
            "in": "query",
            "required": name in declared.query.get("required", ()),
            "schema": schema,
        }
        if "description" in schema:
            parameter["description"] = schema["description"]
        if schema.get("type") == "array":
            parameter |= {"style": "form", "explode": REPEATS in schema}
        elif schema.get("type") == "object":
            parameter |= {"style": "deepObject", "explode": True}
        yield parameter


def _header_parameters(declared: RestOperation) -> Iterator[dict[str, Any]]:
    for name, schema in declared.headers.items():
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _answer(answer: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        described["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    if answer.schema is not None:
        described["content"] = {
            media: {"schema": answer.schema if media == JSON else {"type": "string"}} for media in answer.media_types
        }
    return described
