# SPDX-License-Identifier: Apache-2.0
"""Ids with a slash, such as ``kubevirt/vm`` of a provider, in the paths of items and histories.

A client sends the slash percent-encoded or plain. WSGI decodes the path, so the router would see two segments. This
Falcon middleware hides the slashes of an id from the router, and restores them before the resource gets the id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import falcon

_HISTORY = "/history"

_HIDDEN = "\ufdd0"
"""Replaces a slash. It is no character of any text (a noncharacter of Unicode)."""


class SlashedIds:
    """Falcon middleware."""

    def __init__(self, plurals: Collection[str]) -> None:
        """:param plurals: the kinds of which the API has no paths below an item, except the history."""
        self._plurals = frozenset(plurals)

    def process_request(self, request: falcon.Request, _response: falcon.Response) -> None:
        """Runs before routing."""
        request.context.slashed_path = None
        root, version, plural, rest = (*request.path.split("/", 3), "", "", "")[:4]
        if root or version != "v1" or "/" not in rest or plural not in self._plurals:
            return
        entity_id, tail = (rest.removesuffix(_HISTORY), _HISTORY) if rest.endswith(_HISTORY) else (rest, "")
        if "/" in entity_id:
            request.context.slashed_path = request.path
            request.path = f"/v1/{plural}/{entity_id.replace('/', _HIDDEN)}{tail}"

    def process_resource(
        self, request: falcon.Request, _response: falcon.Response, _resource: Any, params: dict[str, Any]
    ) -> None:
        """Runs after routing."""
        if request.context.slashed_path is None:
            return
        request.path = request.context.slashed_path
        restored: Mapping[str, Any] = {name: value.replace(_HIDDEN, "/") for name, value in params.items()}
        params.update(restored)
