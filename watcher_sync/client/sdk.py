# SPDX-License-Identifier: Apache-2.0
"""The service ``watcher-sync`` of openstacksdk: ``conn.add_service(sdk.WatcherSync())`` makes ``conn.watcher_sync``.

The service uses :class:`~watcher_sync.client.client.Client` with the session and the endpoint of the connection. Its
methods return resources of openstacksdk, and raise exceptions of openstacksdk with the API's title and detail.

The endpoint is the root of the API, with or without ``/v1``. It needs no version discovery.

No other module imports this one, because openstacksdk loads slowly. The plugin of OpenStackClient does not use it: its
commands are those of ``watcher-sync``, which need the client alone.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import requests
from openstack import exceptions, proxy, resource, service_description

from watcher_sync.backoff import Backoff
from watcher_sync.client.changes import DEFAULT_WAIT_SECONDS
from watcher_sync.client.client import Client
from watcher_sync.client.errors import ClientError, ProblemError, Unavailable, Unreachable
from watcher_sync.client.models import EventPage
from watcher_sync.client.transport import SERVICE_TYPE

_T = TypeVar("_T")


class WatcherSyncResource(resource.Resource):
    """A document of the API. All its members are attributes and keys, also those of the kinds of plugins.

    A name has ``_`` where the member has ``-``, and a further ``_`` where the SDK has a method of the name, such as
    ``items_``. Times are ISO 8601 text. An attribute that the document lacks is None: the API hides some fields from
    projects, such as ``host``.
    """

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


Condition = Mapping[str, Any] | Callable[[WatcherSyncResource | None], Any]
"""Attribute -> the value to wait for, or a function of the entity; None: it does not exist."""


class WatcherSyncProxy(proxy.Proxy):
    """``conn.watcher_sync``. Used by one thread at a time.

    The lists are generators, which request one page after the other.
    """

    skip_discovery = True

    @functools.cached_property
    def client(self) -> Client:
        """The client of the same session, which has the rest of the API. It raises ``ClientError``."""
        return Client(self, timeout=self.session.timeout or 30.0)

    def entities(
        self,
        kind: str,
        /,
        *,
        fields: Sequence[str] | None = None,
        sort: str | None = None,
        all_projects: bool | None = None,
        as_of: int | str | None = None,
        max_items: int | None = None,
        marker: str | None = None,
        **filters: Any,
    ) -> Iterator[WatcherSyncResource]:
        """The entities of a kind.

        :param max_items: the maximum number of entities of all pages together.
        :param filters: field -> value, or a list of values that all have to match. A text may have an operator, such
            as ``gt:4``.

        The other parameters are those of :meth:`~watcher_sync.client.entities.EntityCalls.entities`.
        """
        with _sdk_errors():
            yield from map(
                _resource,
                self.client.entities(
                    kind,
                    filters={name: _filter(value) for name, value in filters.items()},
                    sort=sort,
                    fields=fields,
                    limit=max_items,
                    marker=marker,
                    all_projects=all_projects,
                    as_of=as_of,
                ),
            )

    def get_entity(
        self, kind: str, entity: str | WatcherSyncResource, *, as_of: int | str | None = None
    ) -> WatcherSyncResource:
        """One entity.

        :param entity: its id, or the entity as it was read before.
        :param as_of: the entity as it was after the change with this seq, or at this time.
        :raises NotFoundException: when there is none with this id.
        """
        with _sdk_errors():
            return _resource(self.client.entity(kind, _id(entity), as_of=as_of))

    def find_entity(self, kind: str, name_or_id: str, ignore_missing: bool = True) -> WatcherSyncResource | None:
        """One entity, by its id, or else by its name.

        :param ignore_missing: return None when there is none.
        :raises NotFoundException: when there is none, unless ``ignore_missing``.
        :raises DuplicateResource: when several have this name; the message names their ids.
        """
        try:
            with _sdk_errors():
                return _resource(self.client.find_entity(kind, name_or_id))
        except exceptions.NotFoundException:
            if not ignore_missing:
                raise
            return None
        except exceptions.ConflictException as exc:
            raise exceptions.DuplicateResource(str(exc)) from exc

    def wait_for(
        self, kind: str, name_or_id: str, condition: Condition, *, timeout: float = 300.0
    ) -> WatcherSyncResource | None:
        """Waits until an entity is as wanted. It need not exist at the beginning.

        After the first read, the method waits for changes by long polls of the journal. It reads the entity again when
        a change concerns it. While the API is unavailable, it retries.

        :param condition: attribute -> value, all of which have to match, or a function that gets the entity, or None
            while there is none.
        :param timeout: seconds.
        :returns: the entity with which the condition is met.
        :raises ResourceTimeout: when the condition is not met in time.
        :raises SDKException: when the API refuses a request, or is unavailable at the end of the time.
        :raises KeyError: when the condition names an attribute that the entity does not have.
        """
        deadline = time.monotonic() + timeout
        met = condition if callable(condition) else functools.partial(_has, condition)
        retried = functools.partial(_retried, deadline)
        page = retried(lambda: self.client.events_page(limit=1))
        while not met(found := retried(lambda: self.find_entity(kind, name_or_id))):
            names = (name_or_id, found.id if found else name_or_id)
            is_concerned = False
            while not is_concerned:
                left = round(deadline - time.monotonic(), 3)
                if left <= 0:
                    why = "has not met the condition" if found else "does not exist"
                    raise exceptions.ResourceTimeout(f"{kind} {name_or_id} {why} after {timeout:g} s")
                poll = functools.partial(
                    self.client.events_page,
                    page.next_since,
                    wait=min(left, DEFAULT_WAIT_SECONDS),
                    kind=kind,
                    entity_id=found.id if found else None,
                    epoch=page.epoch,
                )
                page = retried(poll)
                is_concerned = _concerns(page, names)
        return found

    def events(
        self,
        since: int | None = None,
        *,
        kind: str | None = None,
        entity_id: str | None = None,
        actor: str | None = None,
        all_projects: bool | None = None,
    ) -> Iterator[WatcherSyncResource]:
        """Every change of the model after ``since``, in order, without a gap and without repetition. It has no end.

        While the API is unavailable, it retries. The parameters are those of
        :meth:`~watcher_sync.client.client.Client.events`.
        """
        with _sdk_errors():
            yield from map(
                _resource,
                self.client.events(since, kind=kind, entity_id=entity_id, actor=actor, all_projects=all_projects),
            )

    def sources(self) -> Iterator[WatcherSyncResource]:
        """The sources of events, with their states."""
        with _sdk_errors():
            yield from map(_resource, self.client.sources())

    def subscriptions(
        self, *, state: str | None = None, all_projects: bool | None = None
    ) -> Iterator[WatcherSyncResource]:
        """The subscriptions of all instances.

        :param state: only those in this state: active, suspended or gone.
        :param all_projects: True: those of all projects; False: those of the caller's project.
        """
        with _sdk_errors():
            yield from map(_resource, self.client.subscriptions(state=state, all_projects=all_projects))

    def get_subscription(self, instance: str | WatcherSyncResource, name: str) -> WatcherSyncResource:
        """One subscription.

        :param instance: the instance, or its id.
        :raises NotFoundException: when there is none of this name.
        """
        with _sdk_errors():
            return _resource(self.client.subscription(_id(instance), name))

    def create_subscription(self, instance: str | WatcherSyncResource, **values: Any) -> WatcherSyncResource:
        """Subscribes to the changes of an instance.

        :param instance: the instance, or its id.
        :param values: ``name``, ``callback_url``, and optionally ``min_notify_interval``, ``metadata``, ``secret``,
            ``payload``, ``format``, ``kinds``, ``ids``, ``fields``, ``labels``.
        :raises ConflictException: when the instance has a subscription of the name.
        :raises BadRequestException: when a value is invalid.
        """
        members = {name.replace("_", "-"): value for name, value in values.items()}
        with _sdk_errors():
            return _resource(self.client.create_subscription(_id(instance), members))

    def delete_subscription(self, instance: str | WatcherSyncResource, name: str, ignore_missing: bool = True) -> None:
        """Deletes a subscription.

        :param instance: the instance, or its id.
        :param ignore_missing: do nothing when there is none.
        :raises NotFoundException: when there is none, unless ``ignore_missing``.
        """
        try:
            with _sdk_errors():
                self.client.delete_subscription(_id(instance), name)
        except exceptions.NotFoundException:
            if not ignore_missing:
                raise


class WatcherSync(service_description.ServiceDescription):  # type: ignore[type-arg]  # generic since 4.5
    """For ``Connection.add_service``."""

    def __init__(self) -> None:
        super().__init__(SERVICE_TYPE, {"1": WatcherSyncProxy})


@contextlib.contextmanager
def _sdk_errors() -> Iterator[None]:
    """Turns the errors of the client into those of openstacksdk."""
    try:
        yield
    except ProblemError as exc:
        response = requests.Response()
        response.status_code = exc.status
        response.headers["X-OpenStack-Request-ID"] = str(exc.document.get("request_id", ""))
        title = exc.document.get("title")
        text = f"{title}: {exc.detail}" if title else exc.detail
        try:
            exceptions.raise_from_response(response, error_message=text)
        except exceptions.SDKException as error:
            raise error from exc
    except ClientError as exc:
        raise exceptions.SDKException(str(exc)) from exc


def _retried(deadline: float, call: Callable[[], _T]) -> _T:
    """What a call returns. While the API is unavailable, the call is repeated until the deadline.

    :raises SDKException: when the API refuses it, or is unavailable at the deadline.
    """
    backoff = Backoff(0.5, 15.0)
    while True:
        try:
            with _sdk_errors():
                return call()
        except exceptions.SDKException as exc:
            pause = backoff.failed()
            if not isinstance(exc.__cause__, (Unreachable, Unavailable)) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)


def _resource(document: Any) -> WatcherSyncResource:
    """The resource of an answer.

    :param document: an entity, or one of the client's models.
    """
    members = msgspec.to_builtins(document)
    return _resource_type(tuple(members)).existing(**members)


@functools.lru_cache
def _resource_type(members: tuple[str, ...]) -> type[WatcherSyncResource]:
    """The class of the documents with these members, which the server chooses."""
    attributes = {}
    for member in members:
        name = member.replace("-", "_")
        if name not in ("id", "name"):
            attributes[f"{name}_" if hasattr(WatcherSyncResource, name) else name] = resource.Body(member)
    return type("WatcherSyncResource", (WatcherSyncResource,), attributes)


def _id(entity: str | WatcherSyncResource) -> str:
    return entity if isinstance(entity, str) else entity.id


def _filter(value: Any) -> str | list[str]:
    if isinstance(value, (list, tuple)):
        return [each if isinstance(each, str) else json.dumps(each) for each in value]
    return value if isinstance(value, str) else json.dumps(value)


def _has(wanted: Mapping[str, Any], entity: WatcherSyncResource | None) -> bool:
    return entity is not None and all(entity[name] == value for name, value in wanted.items())


def _concerns(page: EventPage, names: Sequence[str]) -> bool:
    """Whether a change is one of an entity with one of these ids, or gives an entity one of these names."""
    return any(change.id in names or any(new in names for _, new in change.delta.values()) for change in page.events)
