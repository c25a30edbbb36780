# SPDX-License-Identifier: Apache-2.0
"""WSGI middleware outside of keystonemiddleware: a Bearer token (RFC 6750) counts as ``X-Auth-Token``.

Agents of the Axway dialect send no other header. So this is for the paths of watch topics and of their events only.
``X-Auth-Token`` precedes a Bearer token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from watcher_sync.model.watch.topics import COLLECTION

Wsgi = Callable[..., Iterable[bytes]]

_PATHS: Final = (COLLECTION, f"/events{COLLECTION}")
_SCHEME: Final = "bearer"


def wrap(application: Wsgi) -> Wsgi:
    """Wraps the application, which accepts ``X-Auth-Token`` only."""

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not environ.get("HTTP_X_AUTH_TOKEN") and _is_of_a_topic(environ.get("PATH_INFO", "")):
            scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            if scheme.lower() == _SCHEME and token.strip():
                environ["HTTP_X_AUTH_TOKEN"] = token.strip()
        return application(environ, start_response)

    return wrapped


def _is_of_a_topic(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in _PATHS)
