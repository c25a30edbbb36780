# SPDX-License-Identifier: Apache-2.0
"""Adds the headers of security to every answer, also to those of the other middlewares.

* ``X-Content-Type-Options: nosniff``: a browser does not guess another media type.
* ``Cache-Control: no-store``, unless the answer has its own: no cache stores what one caller may see.
* ``Vary``: the headers of the request on which an answer depends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg

Wsgi = Callable[..., Iterable[bytes]]

VARY = "X-Auth-Token, Accept"


def wrap(application: Wsgi, _conf: cfg.ConfigOpts) -> Wsgi:
    """Wraps the application, outermost."""

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, _completed(headers), *rest)

        return application(environ, start)

    return wrapped


def _completed(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    given = {name.lower() for name, _ in headers}
    more = [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"), ("Vary", VARY)]
    return [*headers, *(header for header in more if header[0].lower() not in given)]
