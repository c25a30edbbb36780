# SPDX-License-Identifier: Apache-2.0
"""Entities with their versions, for a copy of the model: who may read them, and their schema."""

from __future__ import annotations

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.rules import ADMIN_ONLY_FIELDS, ALL_PROJECTS


def require_all(call: Call) -> None:
    """Requires a caller who sees everything of every entity.

    :raises Problem: 403 when it does not.
    """
    if call.context.scope is not None:
        raise call.context.refusal([ALL_PROJECTS])
    if not call.context.sees_admin_only:
        raise call.context.refusal([ADMIN_ONLY_FIELDS])


def with_versions(schema: schemas.Schema) -> schemas.Schema:
    """The schema of an entity that may have the member ``versions``."""
    versions = {
        "type": "object",
        "additionalProperties": schemas.STRING,
        "description": "facet -> the version that wrote it last; only with versions=true.",
    }
    return {**schema, "properties": {**schema["properties"], "versions": versions}}
