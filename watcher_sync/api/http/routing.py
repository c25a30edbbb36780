# SPDX-License-Identifier: Apache-2.0
"""HEAD on every path that has GET: the same answer without its body (RFC 9110, 9.3.2).

The request passes what a GET passes: authentication, policy, limits, validation. The module ``envelope`` removes the
body of every answer, also of those that middlewares make. A stream does not begin, and a long poll does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import falcon
from falcon.routing import CompiledRouter


class Router(CompiledRouter):
    """Falcon's router, with HEAD."""

    def map_http_methods(self, resource: object, **options: Any) -> dict[str, Any]:
        """Maps the methods of a resource to its responders."""
        responders: dict[str, Any] = dict(super().map_http_methods(resource, **options))
        if "GET" in responders:
            responders.setdefault("HEAD", _without_stream(responders["GET"]))
        return responders


def _without_stream(get: Callable[..., None]) -> Callable[..., None]:
    def answer(request: falcon.Request, response: falcon.Response, **params: str) -> None:
        get(request, response, **params)
        # Falcon sends nothing of it, and does not close it either.
        if close := getattr(response.stream, "close", None):
            close()

    return answer
