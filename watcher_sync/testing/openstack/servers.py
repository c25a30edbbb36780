# SPDX-License-Identifier: Apache-2.0
"""Nova's lists of servers: filters, order, and pages by marker.

The rules are Nova's. Without ``deleted`` or ``changes-since``, a list shows what is not deleted, and what is
soft-deleted only with ``soft_deleted``. With ``changes-since`` it shows everything that changed, deleted or not. The
marker may be a deleted server, but not one that was archived. A page that is full has a link to the next one.
"""

from __future__ import annotations

import bisect
import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Response, not_found
from watcher_sync.testing.openstack.paging import Call, is_true, refused
from watcher_sync.testing.openstack.records import Server
from watcher_sync.testing.openstack.server_views import STATUSES, ServerViews, View, basic, status, view_of

_SORT_KEYS: Final[dict[str, str]] = {
    "uuid": "id", "created_at": "created_at", "updated_at": "updated_at", "launched_at": "launched_at",
    "display_name": "name", "host": "host", "node": "node", "vm_state": "state", "task_state": "task_state",
    "project_id": "project_id", "user_id": "user_id", "availability_zone": "availability_zone",
    "hostname": "hostname", "image_ref": "image_id", "power_state": "power_state", "locked": "locked",
}  # fmt: skip
_FILTERS: Final = frozenset(
    {"all_tenants", "availability_zone", "changes-before", "changes-since", "config_drive", "created_at", "deleted",
     "description", "flavor", "host", "hostname", "image", "ip", "ip6", "key_name", "launched_at", "limit", "locked",
     "marker", "name", "node", "not-tags", "not-tags-any", "power_state", "project_id", "soft_deleted", "sort_dir",
     "sort_key", "status", "tags", "tags-any", "task_state", "tenant_id", "terminated_at", "user_id", "uuid",
     "vm_state"}
)  # fmt: skip
_ADMIN_ONLY: Final = frozenset(
    {"deleted", "host", "node", "soft_deleted", "tenant_id", "project_id", "uuid", "vm_state"}
)
"""Filters that Nova drops silently unless the rule ``servers:allow_all_filters`` is passed."""

Test = Callable[[Server], bool]


class Servers:
    """The lists, and one server."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._views = ServerViews(inventory)

    def detail(self, call: Call) -> Response:
        view = self._view(call)
        with self._inventory.lock:
            found = self._page(call)
            encoded = [self._views.encode(server, view) for server in found]
        return self._list(call, "servers/detail", found, encoded)

    def index(self, call: Call) -> Response:
        with self._inventory.lock:
            found = self._page(call)
        encoded = [msgspec.json.encode(basic(server, call.request.base)) for server in found]
        return self._list(call, "servers", found, encoded)

    def show(self, call: Call, server_id: str) -> Response:
        with self._inventory.lock:
            server = self._inventory.servers.get(server_id)
            user = call.token.user
            if server is None or server.deleted or not (user.is_admin or server.project_id == user.project_id):
                raise not_found(f"Instance {server_id} could not be found.")
            encoded = self._views.encode(server, self._view(call, one=True))
        return Response(200, b'{"server":' + encoded + b"}")

    @staticmethod
    def _view(call: Call, *, one: bool = False) -> View:
        return view_of(call.request.base, call.version, admin=call.can("os-extended-server-attributes"), one=one)

    @staticmethod
    def _list(call: Call, path: str, found: list[Server], encoded: list[bytes]) -> Response:
        body = b'{"servers":[' + b",".join(encoded) + b"]"
        link = call.next_link(path, len(found), found[-1].id) if found else None
        if link is not None:
            body += b',"servers_links":' + msgspec.json.encode([{"rel": "next", "href": link}])
        return Response(200, body + b"}")

    def _page(self, call: Call) -> list[Server]:
        """:raises ApiError: 400 for a filter, a limit or a marker that Nova refuses, 403 for others' servers."""
        tests = _tests(call)
        limit = call.limit()
        page: list[Server] = []
        if not limit:
            return page
        for server in self._after_marker(call):
            if all(test(server) for test in tests):
                page.append(server)
                if len(page) == limit:
                    break
        return page

    def _after_marker(self, call: Call) -> Iterable[Server]:
        """In the order of the list."""
        servers, order = self._inventory.servers, self._inventory.order()
        marked: Server | None = None
        if (marker := call.request.last("marker")) is not None:
            marked = servers.get(marker)
            if marked is None:
                raise ApiError(400, f"marker [{marker}] not found")
        keys = [_sort_field(key) for key in call.request.query.get("sort_key", ())]
        if not call.token.user.is_admin and (admins := sorted({"host", "node"}.intersection(keys))):
            raise ApiError(403, f"Only administrators can sort servers by {admins[0]}")
        directions = list(call.request.query.get("sort_dir", ())) or ["desc"]
        if not {"asc", "desc"}.issuperset(directions):
            raise ApiError(400, "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'")
        if not keys or keys[0] == "created_at":
            return _by_age(servers, order, marked, descending=directions[0] != "asc")
        return _by_keys(servers.values(), keys, directions, marked)


def _by_age(
    servers: dict[str, Server],
    order: list[tuple[datetime.datetime, int, str]],
    marked: Server | None,
    *,
    descending: bool,
) -> Iterator[Server]:
    place = None if marked is None else (marked.created_at, marked.number, marked.id)
    if descending:
        end = len(order) if place is None else bisect.bisect_left(order, place)
        indexes = range(end - 1, -1, -1)
    else:
        indexes = range(0 if place is None else bisect.bisect_right(order, place), len(order))
    return (servers[order[i][2]] for i in indexes)


def _by_keys(
    servers: Iterable[Server], keys: list[str], directions: list[str], marked: Server | None
) -> Iterator[Server]:
    """Sorted by any keys, and by age at last; what has no value comes first, as in MySQL."""
    ordered = list(servers)
    directions = directions + [directions[0]] * (len(keys) + 2 - len(directions))
    for key, direction in reversed(list(zip([*keys, "created_at", "number"], directions, strict=False))):
        ordered.sort(key=_sort_key(key), reverse=direction == "desc")
    begin = 0 if marked is None else ordered.index(marked) + 1
    return iter(ordered[begin:])


def _sort_field(key: str) -> str:
    """:raises ApiError: 400 for what Nova does not sort by."""
    if key not in _SORT_KEYS:
        known = sorted(_SORT_KEYS)
        message = f"Invalid input for query parameters sort_key. Value: {key}. '{key}' is not one of {known}"
        raise ApiError(400, message)
    return _SORT_KEYS[key]


def _sort_key(field: str) -> Callable[[Server], tuple[bool, Any]]:
    def key(server: Server) -> tuple[bool, Any]:
        value = getattr(server, field)
        return value is not None, 0 if value is None else value

    return key


def _tests(call: Call) -> list[Test]:
    """The filters of a request.

    :raises ApiError: 400 for a filter that Nova does not know, 403 for what only an administrator may see.
    """
    request, user = call.request, call.token.user
    has_all = call.can("servers:allow_all_filters")
    query = {name: values for name, values in request.query.items() if has_all or name not in _ADMIN_ONLY}
    for name in query:
        if name not in _FILTERS and not name.startswith("_") and call.version >= (2, 75):
            raise ApiError(400, f"'{name}' does not match any of the regexes: '^_'")
    tests: list[Test] = [lambda server: not server.hidden]
    _add_time_tests(tests, call)
    _add_deleted_tests(tests, query)
    if is_true(request.last("all_tenants")) or request.last("all_tenants") == "":
        if not call.can("servers:detail:get_all_tenants"):
            raise refused("servers:detail:get_all_tenants")
        _add_equal(tests, query, "tenant_id", "project_id")
        _add_equal(tests, query, "project_id", "project_id")
    else:
        tests.append(lambda server: server.project_id == user.project_id)
    if "status" in query:
        wanted = frozenset(text.upper() for text in query["status"])
        if not wanted & STATUSES and call.version >= (2, 38):
            raise ApiError(400, "Invalid status value")
        tests.append(lambda server: status(server) in wanted)
    for name in ("host", "node", "user_id", "vm_state", "task_state", "availability_zone"):
        _add_equal(tests, query, name, _SORT_KEYS[name])
    _add_equal(tests, query, "uuid", "id")
    if "name" in query:
        part = query["name"][-1]
        tests.append(lambda server: part in (server.name or ""))
    if "locked" in query and call.version >= (2, 73):
        is_locked = is_true(query["locked"][-1])
        tests.append(lambda server: server.locked == is_locked)
    return tests


def _add_equal(tests: list[Test], query: dict[str, tuple[str, ...]], name: str, field: str) -> None:
    if name in query:
        wanted = query[name]
        tests.append(lambda server: getattr(server, field) in wanted)


def _add_time_tests(tests: list[Test], call: Call) -> None:
    """A server that was never updated is in no list of changes."""
    if (given := call.request.last("changes-since")) is not None:
        since = _moment("changes-since", given)
        tests.append(lambda server: server.updated_at is not None and server.updated_at >= since)
    if (given := call.request.last("changes-before")) is not None and call.version >= (2, 66):
        before = _moment("changes-before", given)
        tests.append(lambda server: server.updated_at is not None and server.updated_at <= before)


def _add_deleted_tests(tests: list[Test], query: dict[str, tuple[str, ...]]) -> None:
    """Any text is true for ``soft_deleted``, and only for ``deleted`` the words are parsed, as in Nova."""
    soft = query.get("soft_deleted", ("",))[-1]
    if "deleted" not in query and ("changes-since" in query or "changes-before" in query):
        return
    if is_true(query.get("deleted", ("",))[-1]):
        with_soft = "soft_deleted" not in query or bool(soft)
        tests.append(lambda server: server.deleted or (with_soft and server.state == "soft-delete"))
        return
    tests.append(lambda server: not server.deleted)
    if not soft:
        tests.append(lambda server: server.state != "soft-delete")


def _moment(name: str, text: str) -> datetime.datetime:
    """:raises ApiError: 400 for text that is no time."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as exc:
        message = f"Invalid input for query parameters {name}. Value: {text}. '{text}' is not a 'date-time'"
        raise ApiError(400, message) from exc
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
