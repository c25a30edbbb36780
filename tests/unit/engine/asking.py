# SPDX-License-Identifier: Apache-2.0
"""A request to a WSGI application, without a socket."""

from __future__ import annotations

import json
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from prometheus_client.parser import text_string_to_metric_families


def ask(application: Any, path: str, method: str = "GET", **environ: str) -> tuple[int, Any]:
    """Status and body; JSON is decoded. The answer is held against the WSGI specification."""
    asked: dict[str, Any] = {
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "REQUEST_METHOD": method,
        "QUERY_STRING": "",
        **environ,
    }
    setup_testing_defaults(asked)
    got: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        got[:] = [int(status.split()[0]), dict(headers)]
        return lambda data: None

    answer = validator(application)(asked, start_response)
    try:
        body = b"".join(answer).decode()
    finally:
        answer.close()
    status, headers = got
    return status, json.loads(body) if headers.get("Content-Type") == "application/json" and body else body


def figures(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """sample name -> labels -> value, of the text of /metrics."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, {})
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found
