# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""No request holds a thread: each parser that a client reaches costs no more than its text is long, and stops early."""

from __future__ import annotations

import gc
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import falcon.testing
import pytest

from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.http.schemas import nullable
from watcher_sync.api.http.validation import require_valid, validator

LIMIT_SECONDS = 2.0
"""Of processor time. The largest documents of numbers that are none take 0.2 seconds on one core."""
ATTEMPTS = 3
"""Of a request that takes longer: another process may have had the caches of the processor."""

LINE = 8_000
"""Characters of a value in the request line or in a header; servers have about this limit."""
BODY = 500_000
"""Bytes of a body, just below the limit."""

UNITS = (
    "(", "[", "{", "9", "1:", "%25", '"', "\\", "a!", "0.", "/", ".", "*", "a*", "=,", "a=b,", "W/", "é", "eyJ", "a b",
    ";q=0.1,", ":", "#", "&a=", "~", "_", "-", "a%00", "a,", "2026-01-01T00:00:00.0",
)  # fmt: skip
"""What a hostile text repeats."""


def texts(length: int) -> Iterator[str]:
    for unit in UNITS:
        yield unit * (length // len(unit))
    yield "a" * length + "!"
    yield "2026-01-01T00:00:00." + "0" * length
    yield "1" * length + "e"


def bodies() -> Iterator[tuple[str, bytes]]:
    """Documents that are costly to decode, or to refuse."""
    yield "keys", b"{" + b",".join(b'"k%d":1' % i for i in range(BODY // 10)) + b"}"
    yield "numbers", b"[" + b"1," * (BODY // 2) + b"1]"
    yield "nested", b'{"a":' * 99 + b"1" + b"}" * 99
    yield "nested too deeply", b"[" * (BODY // 2) + b"]" * (BODY // 2)
    yield "objects", b"[" + b",".join([b"{}"] * (BODY // 3)) + b"]"
    yield "escapes", b'"' + b"\\u0061" * (BODY // 6) + b'"'
    yield "one key", b"{" + b",".join([b'"k":1'] * (BODY // 6)) + b"}"
    yield "no numbers", b"[" + b"NaN," * (BODY // 4) + b"1]"
    yield "digits", b"9" * BODY
    yield "fraction", b"1." + b"9" * BODY
    yield "quotes", b'["' + b'\\"' * (BODY // 2)
    yield "open strings", b'["a' * (BODY // 3)
    yield "colons", b"{" + b",".join(b'"k%d:":"a:b"' % i for i in range(BODY // 16)) + b"}"


YAML = {
    "lists": b"[" * 16_000,
    "lists before an alias": b"[" * 16_000 + b"*a",
    "objects": b"{a: " * 4_000,
    "items": b"- " * 8_000,
    "keys": b"? " * 8_000,
    "empty keys": b"?\n" * 8_000,
    "many": b"[" + b"a," * 8_000 + b"]",
    "a set": b"!!set {" + b"a," * 8_000 + b"}",
    "pairs": b"!!omap [" + b"{a: b}," * 2_300 + b"]",
    "merged": b"<<: [" + b"{a: b}," * 2_300 + b"]",
    "sixties": b"a: 1" + b":1" * 8_000,
    "anchors": b"[" + b"&a b," * 3_200 + b"]",
    "documents": b"---\n" * 4_000,
    "lines": b'a: "' + b"\n" * 16_000 + b'"',
    "numbers of one hash": b"".join(b"%d: 1\n" % (i * (2**61 - 1)) for i in range(1, 650)),
}


class Survey:
    """Sends requests, and remembers those that took too long or were a defect."""

    def __init__(self, client: falcon.testing.TestClient) -> None:
        self.client = client
        self.sent = 0
        self.wrong: list[tuple[object, ...]] = []

    def send(self, what: object, method: str, path: str, **request: Any) -> None:
        for _ in range(ATTEMPTS):
            gc.disable()  # the collector passes over all objects of the test run
            began = time.thread_time()
            status = self.client.simulate_request(method, path, **request).status_code
            seconds = time.thread_time() - began
            gc.enable()
            if seconds <= LIMIT_SECONDS:
                break
        self.sent += 1
        if seconds > LIMIT_SECONDS or status >= 500:
            self.wrong.append((what, method, path, status, f"{seconds:.2f} s"))


@pytest.fixture
def survey(client: falcon.testing.TestClient) -> Iterator[Survey]:
    made = Survey(client)
    yield made
    assert made.sent
    assert made.wrong == []


@pytest.fixture
def operations(client: falcon.testing.TestClient) -> list[tuple[str, str, dict[str, Any]]]:
    """(method, path, description) of all, with the references of their parameters resolved."""
    document = client.simulate_get("/openapi.json").json
    found = []
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method != "parameters":
                parameters = [_resolved(document, each) for each in (*shared, *operation.get("parameters", []))]
                found.append((method.upper(), path, operation | {"parameters": parameters}))
    return found


def _resolved(document: dict[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    for name in parameter.get("$ref", "").split("/")[1:]:
        document = document[name]
    return document if "$ref" in parameter else parameter


def filled(path: str, value: str = "x") -> str:
    return re.sub(r"\{.*?\}", value, path)


def quoted(text: str) -> str:
    return text.replace(" ", "%20").replace("&", "%26").replace("#", "%23")


def places(schema: dict[str, Any], depth: int = 0) -> Iterator[Any]:
    """Documents of a schema with one costly value each."""
    (schema,) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"][:1]
    kinds = schema.get("type")
    kind = next((each for each in kinds if each != "null"), None) if isinstance(kinds, list) else kinds
    if kind == "object" and depth < 5:
        for name, member in schema.get("properties", {}).items():
            yield from ({name: value} for value in places(member, depth + 1))
        if isinstance(schema.get("additionalProperties"), dict):
            yield from ({"a": value} for value in places(schema["additionalProperties"], depth + 1))
        yield {f"k{number}": 1 for number in range(20_000)}
    elif kind == "array" and depth < 6:
        yield from ([value] for value in places(schema.get("items", {}), depth + 1))
        yield list(range(50_000))
        yield [str(number) for number in range(50_000)]
        yield [{"a": number} for number in range(20_000)]
    elif kind in ("string", None):
        yield from texts(BODY // 2)
    else:
        yield 10**300


@pytest.mark.rare
def test_no_query_and_no_path_holds_a_thread(survey: Survey, operations: list[Any]) -> None:
    for method, path, operation in operations:
        for parameter in operation["parameters"]:
            for text in texts(LINE):
                name, what = parameter["name"], (parameter["in"], parameter["name"], text[:10])
                if parameter["in"] == "query":
                    survey.send(what, method, filled(path), query_string=f"{name}={quoted(text)}")
                elif parameter["in"] == "path":
                    segment = re.sub("[?#/]", "x", text)
                    survey.send(what, method, filled(path.replace("{" + name + "}", segment)))
                elif text.isascii():
                    survey.send(what, method, filled(path), headers={name: text.strip() or "x"})


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/instances", "/v1/events"])
def test_no_header_holds_a_thread(survey: Survey, path: str) -> None:
    names = (
        "Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Type", "Cookie", "Forwarded",
        "If-Match", "If-Modified-Since", "If-None-Match", "Last-Event-ID", "OpenStack-API-Version", "Origin", "Range",
        "X-Auth-Token", "X-Forwarded-For", "X-OpenStack-Request-ID", "X-Service-Token", "traceparent", "tracestate",
    )  # fmt: skip
    for name in names:
        for text in filter(str.isascii, texts(LINE)):
            survey.send((name, text[:10]), "GET", path, headers={name: text.strip() or "x"})


@pytest.mark.parametrize("document", [body for _, body in bodies()], ids=[name for name, _ in bodies()])
def test_no_document_of_json_holds_a_thread(survey: Survey, document: bytes) -> None:
    for path, media in (
        ("/v1/events", "application/cloudevents-batch+json"),
        ("/v1/service_type_instances", "application/json"),
    ):
        survey.send(media, "POST", path, body=document, headers={"Content-Type": media})


@pytest.mark.rare
def test_no_document_of_any_operation_holds_a_thread(survey: Survey, operations: list[Any]) -> None:
    for method, path, operation in operations:
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            headers = {"Content-Type": media}
            for name, body in bodies():
                survey.send((media, name), method, filled(path), body=body, headers=headers)
            for document in places(content.get("schema", {})):
                body = json.dumps(document).encode()
                if len(body) < BODY:
                    survey.send((media, body[:60]), method, filled(path), body=body, headers=headers)


@pytest.mark.parametrize("document", YAML.values(), ids=YAML)
def test_no_yaml_holds_a_thread(survey: Survey, document: bytes) -> None:
    headers = {"Content-Type": "application/yaml"}
    survey.send("yaml", "POST", "/management/v1/watchtopics", body=document, headers=headers)


OVERSIZED = {
    "a list": ({"type": "array", "items": {"type": "object"}, "maxItems": 3}, list(range(50_000))),
    "a list or null": (nullable({"type": "array", "items": {"type": "object"}, "maxItems": 3}), list(range(50_000))),
    "a list without repetitions": (
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "maxItems": 3},
        [str(number) for number in range(50_000)],
    ),
    "an object": (
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
        {str(number): number for number in range(50_000)},
    ),
    "many errors": ({"type": "array", "items": {"type": "object"}}, list(range(50_000))),
    "many errors or null": (nullable({"type": "array", "items": {"type": "object"}}), list(range(50_000))),
}


@pytest.mark.parametrize(("schema", "document"), OVERSIZED.values(), ids=OVERSIZED)
def test_the_validation_ends_at_what_is_too_large_and_after_some_errors(schema: Any, document: Any) -> None:
    against, calls = validator(schema), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with pytest.raises(Problem):
            require_valid(document, against, "body", "The body")
    finally:
        sys.setprofile(None)
    assert calls < 2_000


def test_null_and_a_value_are_as_the_schema_says() -> None:
    against = validator(nullable({"type": "array", "items": {"type": "integer"}}))
    require_valid(None, against, "body", "The body")
    require_valid([1], against, "body", "The body")
    with pytest.raises(Problem, match="0: is not of type integer") as caught:
        require_valid(["a"], against, "body", "The body")
    assert [each.pointer for each in caught.value.errors] == ["/0"]
