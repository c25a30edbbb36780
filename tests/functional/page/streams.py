# SPDX-License-Identifier: Apache-2.0
"""The event streams of an API, counted between its server and the application."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from watcher_sync.assembly.api import Wsgi


class Streams:
    """The event streams of an API."""

    def __init__(self, parts: int | None = None) -> None:
        """:param parts: after so many parts of its answer a stream ends; None: when the API ends it."""
        self.parts = parts
        self.open = 0
        self.begun = 0
        self.asked = 0
        """Requests for changes that no stream answered."""

    def __call__(self, application: Wsgi) -> Wsgi:
        """Wraps an application."""

        def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/v1/events" or environ.get("HTTP_ACCEPT") != "text/event-stream":
                self.asked += "since=" in environ.get("QUERY_STRING", "")
                return application(environ, start_response)
            return self._counted(application(environ, start_response))

        return wrapped

    def _counted(self, answer: Iterable[bytes]) -> Iterator[bytes]:
        self.open += 1
        self.begun += 1
        try:
            yield from itertools.islice(answer, self.parts)
        finally:
            self.open -= 1
            getattr(answer, "close", lambda: None)()
