# SPDX-License-Identifier: Apache-2.0
"""Parses a request line: the target of the path, the verb, the parameters of the query."""

from __future__ import annotations

from typing import Any

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.faults import Request
from watcher_sync.testing.kubernetes.reads import ListQuery
from watcher_sync.testing.kubernetes.resources import Registry, ResourceType
from watcher_sync.testing.kubernetes.watching import WatchQuery

VERB_OF_METHOD = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Target:
    """What a path names."""

    def __init__(self, resource: ResourceType, namespace: str | None, name: str, subresource: str) -> None:
        self.resource = resource
        self.namespace = namespace
        """None: all of them, or the type has none."""
        self.name = name
        self.subresource = subresource

    @property
    def inside(self) -> str:
        """The namespace as the store has it."""
        return self.namespace or ""


def target_of(registry: Registry, path: str) -> Target | None:
    """What the path names; None for a discovery document, or nothing at all."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = None
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    resource = registry.by_path(group, version, rest[0])
    if resource is None or (namespace is not None and not resource.namespaced):
        return None
    rest = [*rest[1:], "", ""]
    return Target(resource, namespace, rest[0], rest[1])


def verb_of(method: str, target: Target | None, query: dict[str, str]) -> str:
    """As audit logs name it: list and watch are verbs of their own."""
    verb = VERB_OF_METHOD[method]
    if target is None or target.name:
        return verb
    if verb == "get":
        return "watch" if query.get("watch") in ("true", "1") else "list"
    return "deletecollection" if verb == "delete" else verb


def delete_options(request: Request, given: dict[str, Any] | None) -> dict[str, Any]:
    """DeleteOptions, from the body and the query, which wins."""
    options = dict(given or {})
    if "gracePeriodSeconds" in request.query:
        options["gracePeriodSeconds"] = _number(request, "gracePeriodSeconds")
    if "propagationPolicy" in request.query:
        options["propagationPolicy"] = request.query["propagationPolicy"]
    return options


def _number(request: Request, name: str) -> int:
    text = request.query.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise errors.bad_request(f"{name}: {text!r} is not a number")
    return int(text)


def list_query(target: Target, request: Request) -> ListQuery:
    get = request.query.get
    return ListQuery(
        namespace=target.namespace,
        label_selector=get("labelSelector", ""),
        field_selector=get("fieldSelector", ""),
        limit=_number(request, "limit"),
        token=get("continue", ""),
        version=get("resourceVersion", ""),
        match=get("resourceVersionMatch", ""),
    )


def watch_query(target: Target, request: Request) -> WatchQuery:
    get = request.query.get
    initial = get("sendInitialEvents")
    return WatchQuery(
        namespace=target.namespace,
        label_selector=get("labelSelector", ""),
        field_selector=get("fieldSelector", ""),
        version=get("resourceVersion", ""),
        match=get("resourceVersionMatch", ""),
        bookmarks=get("allowWatchBookmarks") in ("true", "1"),
        timeout=float(_number(request, "timeoutSeconds")),
        initial_events=None if initial is None else initial in ("true", "1"),
    )
