# SPDX-License-Identifier: Apache-2.0
"""The formats of a patch: JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge patch.

Here a strategic merge patch is a merge patch with one difference, which pod templates need. If all elements of a
list have a ``name``, they are merged by name. Directives (keys that begin with ``$``) are ignored.
Pure functions; a result may share parts of the arguments.
"""

from __future__ import annotations

import copy
from typing import Any

from watcher_sync.testing.kubernetes.errors import bad_request, invalid, unsupported_media_type


def apply(media_type: str, target: Any, patch: Any) -> Any:
    """The target as the patch makes it.

    :raises ApiError: 415 for an unknown kind of patch, 400 and 422 for one that cannot be applied.
    """
    match media_type:
        case "application/merge-patch+json":
            return merge(target, patch)
        case "application/strategic-merge-patch+json" | "application/apply-patch+yaml":
            return merge(target, patch, by_name=True)
        case "application/json-patch+json":
            if not isinstance(patch, list):
                raise bad_request("a JSON patch is a list of operations")
            target = copy.deepcopy(target)
            for operation in patch:
                target = _operate(target, operation)
            return target
    raise unsupported_media_type(media_type)


def merge(target: Any, patch: Any, *, by_name: bool = False) -> Any:
    """RFC 7386; null removes."""
    if isinstance(patch, dict):
        merged = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if by_name and key.startswith("$"):
                continue
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(merged.get(key), value, by_name=by_name)
        return merged
    if by_name and _named(patch) and _named(target):
        elements = {element["name"]: element for element in target}
        for element in patch:
            elements[element["name"]] = merge(elements.get(element["name"]), element, by_name=True)
        return list(elements.values())
    return patch


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(e, dict) and "name" in e for e in value)


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    kind = operation.get("op")
    try:
        if kind in ("move", "copy"):
            value = copy.deepcopy(_at(document, operation["from"]))
            if kind == "move":
                document = _set(document, operation["from"], None, remove=True)
            return _set(document, operation["path"], value)
        if kind == "test":
            if _at(document, operation["path"]) != operation["value"]:
                raise invalid(f"testing path {operation['path']} failed")
            return document
        if kind == "remove":
            return _set(document, operation["path"], None, remove=True)
        if kind == "replace":
            _at(document, operation["path"])
            return _set(document, operation["path"], operation["value"], replace=True)
        if kind == "add":
            return _set(document, operation["path"], operation["value"])
    except (KeyError, IndexError, ValueError, TypeError) as exc:
        raise invalid(f"the server rejected our request: {kind} {operation.get('path')}: {exc}") from exc
    raise bad_request(f"unknown operation {kind!r}")


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _at(document: Any, pointer: str) -> Any:
    for token in _tokens(pointer):
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


def _set(document: Any, pointer: str, value: Any, *, remove: bool = False, replace: bool = False) -> Any:
    if not pointer:
        return value
    *parents, last = _tokens(pointer)
    parent = document
    for token in parents:
        parent = parent[int(token)] if isinstance(parent, list) else parent[token]
    if isinstance(parent, list):
        if remove:
            del parent[int(last)]
        elif replace:
            parent[int(last)] = value
        else:
            parent.insert(len(parent) if last == "-" else int(last), value)
    elif remove:
        del parent[last]
    else:
        parent[last] = value
    return document
