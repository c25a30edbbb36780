# SPDX-License-Identifier: Apache-2.0
"""``/v1/instance/{id}/status/subscription``: subscriptions in the dialect of ONAP's k8splugin; ``/v1/subscriptions``.

A new subscription belongs to the project of its instance, and it stays there. Members of the project and
administrators change it. To callers of other projects neither the instance nor the subscription exists (404).

The outlet's workers read the rows that are written here, and deliver.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import falcon
import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.positions import QUERY, present
from watcher_sync.api.http.problems import Problem, bad_request, not_found
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import PROJECT_MEMBER, PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.exceptions import JournalPurged, QuotaReached
from watcher_sync.extensions.webhooks import webhook_messages
from watcher_sync.extensions.webhooks.api import bodies
from watcher_sync.extensions.webhooks.api.instance_status import TAG, InstanceStatus, find_visible
from watcher_sync.extensions.webhooks.api.requests import SubscriptionRequests
from watcher_sync.extensions.webhooks.rows import GONE, PENDING, Row, SubscriptionRow
from watcher_sync.extensions.webhooks.subscriptions import SubscriptionExists, Subscriptions
from watcher_sync.model.kinds import project_of
from watcher_sync.read.reading import oldest_seq
from watcher_sync.storage.table_model import TableModel

_IGNORES = (
    "Members that this API does not know are ignored, and null members are absent, as in ONAP's k8splugin. The answer "
    "is 422 if the body is not JSON."
)

_MAX_TESTS = 10
"""Messages of one subscription that may wait for a worker."""

_MAX_TRIES = 5
"""Attempts to write a subscription that others write at the same time."""

_BODY = Body({JSON: bodies.REQUEST}, default=JSON, not_json=422, prepare=bodies.without_nulls)

_LIST = Rule("subscriptions:list", PROJECT_READER)
_SHOW = Rule("subscriptions:show", PROJECT_READER)
_CREATE = Rule("subscriptions:create", PROJECT_MEMBER)
_REPLACE = Rule("subscriptions:replace", PROJECT_MEMBER)
_DELETE = Rule("subscriptions:delete", PROJECT_MEMBER)
_TEST = Rule("subscriptions:test", PROJECT_MEMBER)
_REPLAY = Rule("subscriptions:replay", PROJECT_MEMBER)
_DELIVERIES = Rule("subscriptions:deliveries", PROJECT_READER)


class SubscriptionStore:
    """What the resources share: the rows, the checks of requests, and who may do what."""

    def __init__(
        self,
        service: Service,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        """:raises ConfigError: when an option of ``[outlet_webhook]`` is unusable."""
        self.service = service
        self.rows = Subscriptions(service.store.database, service.tables, now)
        self.requests = SubscriptionRequests(service.conf, service.kinds, now)
        self.now = now
        self.new_id = new_id

    def find(self, call: Call, instance_id: str, name: str) -> Row:
        """The subscription, if the policy allows the operation on it.

        :raises Problem: 404 when there is none or the caller may not see it; 403 when it may see it and do no more.
        """
        # MariaDB ignores spaces at the end of what it compares.
        found = [
            row
            for row in self.rows.find_all(instance_id, name)
            if (row[0].instance_id, row[0].name) == (instance_id, name)
        ]
        own = [row for row in found if row[0].project_id == call.context.project_id]
        for row in (*own, *found):
            if call.context.may_on(call.rule, row[0].project_id):
                return row
        if any(call.context.may_on(_SHOW.name, row[0].project_id) for row in found):
            raise call.context.refusal([call.rule])
        raise absent(instance_id, name)

    def document(self, call: Call, row: Row) -> dict[str, Any]:
        """The answer for a subscription, as the caller may see it."""
        with_query = call.context.may_on(_REPLACE.name, row[0].project_id)
        return bodies.document_of(row, self.now(), with_query=with_query)


class InstanceSubscriptions:
    """``/v1/instance/{id}/status/subscription``: the subscriptions of one instance."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store
        self._quota: int = store.service.conf.outlet_webhook.max_subscriptions_per_project

    @operation(
        summary="List the subscriptions of an instance",
        rule=_LIST,
        responses={200: Answer({"type": "array", "items": bodies.SUBSCRIPTION}, "The subscriptions, by name")},
        errors=(404,),
        tag=TAG,
    )
    def on_get(self, call: Call, instance_id: str) -> None:
        """Answers with all of them that the caller may see."""
        rows = self._store.rows.of_instance(instance_id)
        seen = [row for row in rows if call.context.may_on(call.rule, row[0].project_id)]
        if not seen:
            with self._store.service.reading() as connection:
                find_visible(call, self._view(connection), instance_id)
        call.answer([self._store.document(call, row) for row in seen])

    @operation(
        summary="Subscribe to the changes of an instance",
        description=f"{_IGNORES} The answer is 409 if the instance has a subscription of the name.",
        rule=_CREATE,
        body=_BODY,
        responses={201: Answer(bodies.SUBSCRIPTION, "The subscription", headers=("Location",))},
        errors=(403, 404, 409),
        tag=TAG,
    )
    def on_post(self, call: Call, instance_id: str) -> None:
        """Creates a subscription."""
        store = self._store
        with store.service.reading() as connection:
            kind, instance = find_visible(call, self._view(connection), instance_id)
        store.requests.require_enabled()
        wanted, now = store.requests.wanted(call, kind), store.now()
        subscription = SubscriptionRow(
            id=str(store.new_id()),
            instance_kind=kind,
            instance_id=instance.id,
            name=call.body["name"],
            project_id=project_of(instance),
            user_id=call.context.user_id,
            **rights_of(call.context),
            created_at=now,
            updated_at=now,
            **msgspec.structs.asdict(wanted),
        )
        try:
            store.rows.create(subscription, quota=self._quota)
        except SubscriptionExists:
            name = subscription.name
            raise Problem(409, f"The instance has a subscription of the name {name!r}") from None
        except QuotaReached as exc:
            raise Problem(403, f"Quota exceeded: {exc}", quota=exc.quota, used=exc.used) from None
        call.response.set_header("Location", call.link(None, subscription.name))
        call.answer(_stored(store, call, subscription), 201)

    def _view(self, connection: Any) -> TableModel:
        return TableModel(connection, self._store.service.tables, self._store.service.kinds)


class SubscriptionItem:
    """``/v1/instance/{id}/status/subscription/{name}``: one subscription."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store

    @operation(
        summary="Show a subscription",
        rule=_SHOW,
        responses={200: Answer(bodies.SUBSCRIPTION, "The subscription")},
        errors=(404,),
        tag=TAG,
    )
    def on_get(self, call: Call, instance_id: str, name: str) -> None:
        """Answers with the subscription."""
        call.answer(self._store.document(call, self._store.find(call, instance_id, name)))

    @operation(
        summary="Replace a subscription, and make it active again",
        description=f"{_IGNORES} A member that the body lacks gets its default, but the secrets stay. The name cannot "
        "change. A caller who did not create the subscription can lower what it tells, and not lift it.",
        rule=_REPLACE,
        body=_BODY,
        responses={200: Answer(bodies.SUBSCRIPTION, "The subscription")},
        errors=(403, 404, 409),
        tag=TAG,
    )
    def on_put(self, call: Call, instance_id: str, name: str) -> None:
        """Replaces what the subscriber chose."""
        store = self._store
        if call.body["name"] != name:
            store.find(call, instance_id, name)
            raise bad_request("body", "/name", "is not the name in the path")
        store.requests.require_enabled()
        for _ in range(_MAX_TRIES):
            before, _progress = store.find(call, instance_id, name)
            wanted = store.requests.wanted(call, before.instance_kind, before)
            after = msgspec.structs.replace(
                before,
                **rights_after(before, call.context),
                **msgspec.structs.asdict(wanted),
            )
            if store.rows.replace(after) is not None:
                break
        else:
            raise Problem(409, "The subscription is written by others all the time")
        call.answer(_stored(store, call, after))

    @operation(
        summary="Delete a subscription",
        rule=_DELETE,
        responses={202: Answer(None, "The subscription is deleted")},
        errors=(403, 404),
        tag=TAG,
    )
    def on_delete(self, call: Call, instance_id: str, name: str) -> None:
        """Deletes the subscription."""
        subscription, _ = self._store.find(call, instance_id, name)
        if not self._store.rows.delete(subscription.id):
            raise absent(instance_id, name)
        call.response.status = falcon.HTTP_202


class SubscriptionTest:
    """``/v1/instance/{id}/status/subscription/{name}/test``."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store
        self._max_bytes: int = store.service.conf.outlet_webhook.max_body_bytes

    @operation(
        summary="Send a test message to a callback, once",
        description="The message has the format of the subscription, and no changes. The delivery log has its outcome.",
        rule=_TEST,
        responses={202: Answer(bodies.TEST, "A worker sends the message")},
        errors=(403, 404, 409),
        tag=TAG,
    )
    def on_post(self, call: Call, instance_id: str, name: str) -> None:
        """Stores the message, which a worker sends."""
        store = self._store
        subscription, progress = store.find(call, instance_id, name)
        store.requests.require_enabled()
        if subscription.state == GONE:
            raise Problem(409, "The subscription has ended: no test is sent")
        if len(store.rows.deliveries(subscription.id, limit=_MAX_TESTS, state=PENDING)) >= _MAX_TESTS:
            raise Problem(409, f"{_MAX_TESTS} messages wait already")
        head = webhook_messages.MessageHead(
            webhook_id=f"msg_{store.new_id().hex}",
            sequence=progress.sequence,
            previous_sequence=progress.sequence,
            time=store.now(),
            more={"test": True},
        )
        body = webhook_messages.encode(subscription, webhook_messages.NO_RESOURCES, head, self._max_bytes)
        content_type = webhook_messages.content_type(subscription)
        if not store.rows.add_test(subscription.id, head.webhook_id, content_type, body):
            raise absent(instance_id, name)
        call.answer({"webhook-id": head.webhook_id}, 202)


class SubscriptionReplay:
    """``/v1/instance/{id}/status/subscription/{name}/replay``."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store

    @operation(
        summary="Deliver the changes after a seq again, and make the subscription active",
        description="The answer is 410 if the journal does not reach back that far.",
        rule=_REPLAY,
        query={"epoch": QUERY},
        body=Body({JSON: bodies.REPLAY}, default=JSON),
        responses={202: Answer(None, "A worker delivers the changes again")},
        errors=(403, 404, 410),
        tag=TAG,
    )
    def on_post(self, call: Call, instance_id: str, name: str) -> None:
        """Notes from where to deliver again."""
        store, since = self._store, call.body["since"]
        subscription, _ = store.find(call, instance_id, name)
        store.requests.require_enabled()
        with store.service.reading() as connection:
            position = present(call, connection, store.service.tables)
            head = position.seq
            oldest = oldest_seq(connection, store.service.tables)
        if since > head:
            raise bad_request("body", "/since", f"is after the end of the journal, {head} of epoch {position.epoch}")
        if since + 1 < (head + 1 if oldest is None else oldest):
            raise JournalPurged(f"the journal has no change after seq {since} any more")
        if not store.rows.replay(subscription.id, since):
            raise absent(instance_id, name)
        call.response.status = falcon.HTTP_202


class SubscriptionDeliveries:
    """``/v1/instance/{id}/status/subscription/{name}/deliveries``: the delivery log."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store
        self.on_get = operation(
            summary="List the deliveries of a subscription, the newest first",
            rule=_DELIVERIES,
            query=schemas.paging(store.service.max_limit)
            | {
                "marker": schemas.SEQ | {"description": "The page begins before this id."},
                "state": {"enum": list(bodies.DELIVERY_STATES), "description": "Only deliveries in this state."},
            },
            responses={200: Answer(schemas.collection("deliveries", bodies.DELIVERY), "A page of the log")},
            errors=(404,),
            tag=TAG,
        )(self.list_page)

    def list_page(self, call: Call, instance_id: str, name: str) -> None:
        """Answers with one page."""
        subscription, _ = self._store.find(call, instance_id, name)
        query = call.query
        found = self._store.rows.deliveries(
            subscription.id, before=query.get("marker"), limit=query["limit"] + 1, state=query.get("state")
        )
        call.answer_page("deliveries", found, lambda one: one.id, bodies.delivery_document)


class SubscriptionList:
    """``/v1/subscriptions``: the subscriptions of all instances."""

    def __init__(self, store: SubscriptionStore) -> None:
        self._store = store
        self.on_get = operation(
            summary="List the subscriptions of all instances, by id",
            rule=_LIST,
            query=schemas.paging(store.service.max_limit)
            | {
                **schemas.all_projects("those"),
                "state": {"enum": list(bodies.STATES), "description": "Only subscriptions in this state."},
            },
            responses={200: Answer(schemas.collection("subscriptions", bodies.SUBSCRIPTION), "A page of them")},
            tag=TAG,
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page."""
        query = call.query
        page = self._store.rows.page(
            after=query.get("marker", "").replace("\0", ""),
            limit=query["limit"],
            project_id=call.context.scope_of(query.get("all_projects")),
            state=query.get("state"),
        )
        call.answer_page(
            "subscriptions",
            page.rows,
            lambda row: row[0].id,
            lambda row: self._store.document(call, row),
            more=page.more,
        )


def rights_of(context: RequestContext) -> dict[str, Any]:
    """The rights of a caller, as a subscription has them."""
    return {"sees_admin_only": context.sees_admin_only, "sees_all_projects": context.scope is None}


def rights_after(before: SubscriptionRow, context: RequestContext) -> dict[str, Any]:
    """The rights after a write: those of the owner's present token. Another caller never lifts them."""
    rights = rights_of(context)
    if context.user_id == before.user_id:
        return rights
    return {right: value and getattr(before, right) for right, value in rights.items()}


def absent(instance_id: str, name: str) -> Problem:
    """The 404 of a subscription that does not exist, or that the caller may not see."""
    return not_found(f"subscription {name} of instance {instance_id}")


def _stored(store: SubscriptionStore, call: Call, subscription: SubscriptionRow) -> dict[str, Any]:
    """The document of what was written.

    :raises Problem: 404 when it was deleted meanwhile.
    """
    for row in store.rows.find_all(subscription.instance_id, subscription.name):
        if row[0].id == subscription.id:
            return store.document(call, row)
    raise absent(subscription.instance_id, subscription.name)


def routes(service: Service) -> list[Route]:
    """The status of instances and the subscriptions to it, in the dialect of ONAP's k8splugin."""
    store = SubscriptionStore(service)
    base = "/v1/instance/{instance_id}/status/subscription"
    return [
        ("/v1/subscriptions", SubscriptionList(store)),
        ("/v1/instance/{instance_id}/status", InstanceStatus(service)),
        (base, InstanceSubscriptions(store)),
        (f"{base}/{{name}}", SubscriptionItem(store)),
        (f"{base}/{{name}}/test", SubscriptionTest(store)),
        (f"{base}/{{name}}/replay", SubscriptionReplay(store)),
        (f"{base}/{{name}}/deliveries", SubscriptionDeliveries(store)),
    ]
