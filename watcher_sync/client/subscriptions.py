# SPDX-License-Identifier: Apache-2.0
"""The methods of the client for who receives changes: subscriptions, watch topics, and the status of instances.

The id of an instance is that of a VNF instance, of an instance of a service type, or of a server. A subscription is
named by its instance and its name, a watch topic by its name.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from watcher_sync.client import models
from watcher_sync.client.paging import Reading
from watcher_sync.client.transport import segment
from watcher_sync.extensions.watch.wire.topic_links import COLLECTION, self_link

SUBSCRIPTIONS: Final = "/v1/subscriptions"

_SECRET_BYTES: Final = 32


def new_secret(random: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """A new signing secret, as Standard Webhooks writes it.

    :param random: gives so many random bytes.
    """
    return "whsec_" + base64.b64encode(random(_SECRET_BYTES)).decode()


class SubscriptionCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` for subscriptions."""

    def instance_status(
        self, instance_id: str, *, full: bool = False, kinds: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The status of an instance and of its resources: ``request``, ``ready``, ``resourceCount``,
        ``resourcesStatus``.

        :param full: all fields of each resource, not only its status.
        :param kinds: resources of these kinds only.
        :raises NotFound: when there is no such instance.
        """
        query = {"payload": "full" if full else None, "kinds": kinds}
        return self._get(f"{_instance(instance_id)}", dict[str, Any], query)

    def subscriptions(
        self,
        *,
        state: str | None = None,
        all_projects: bool | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[models.Subscription]:
        """The subscriptions of all instances, by id.

        :param state: only those in this state: active, suspended or gone.
        :param all_projects: True: those of all projects; False: those of the caller's project; None: all that the
            caller may see.
        """
        query = {"state": state, "all_projects": all_projects}
        return self._list(SUBSCRIPTIONS, "subscriptions", models.Subscription, query, limit, marker)

    def instance_subscriptions(self, instance_id: str) -> list[models.Subscription]:
        """The subscriptions of one instance, by name.

        :raises NotFound: when there is no such instance.
        """
        return self._get(f"{_instance(instance_id)}/subscription", list[models.Subscription])

    def subscription(self, instance_id: str, name: str) -> models.Subscription:
        """One subscription.

        :raises NotFound: when there is none of this name.
        """
        return self._get(_path(instance_id, name), models.Subscription)

    def create_subscription(self, instance_id: str, values: Mapping[str, Any]) -> models.Subscription:
        """Subscribes to the changes of an instance.

        :param values: ``name``, ``callback-url``, and optionally ``min-notify-interval``, ``metadata``, ``secret``,
            ``payload``, ``format``, ``kinds``, ``ids``, ``fields``, ``labels``.
        :raises NotFound: when there is no such instance.
        :raises Conflict: when the instance has a subscription of the name.
        :raises BadRequest: when a value is invalid; ``errors`` names it.
        :raises Forbidden: when the policy or the quota does not allow it.
        """
        path = f"{_instance(instance_id)}/subscription"
        return self._transport.request("POST", path, body=values, confidential=True).read(models.Subscription)

    def replace_subscription(self, instance_id: str, name: str, values: Mapping[str, Any]) -> models.Subscription:
        """Replaces a subscription, and makes it active again. What ``values`` lacks gets its default, but without
        ``secret`` the secrets stay.

        :param values: see :meth:`create_subscription`; an empty ``secret`` removes the secrets.
        :raises NotFound: when there is none of this name.
        :raises BadRequest: when a value is invalid; ``errors`` names it.
        """
        path, body = _path(instance_id, name), {**values, "name": name}
        return self._transport.request("PUT", path, body=body, confidential=True).read(models.Subscription)

    def delete_subscription(self, instance_id: str, name: str) -> None:
        """Deletes a subscription.

        :raises NotFound: when there is none of this name.
        """
        self._transport.request("DELETE", _path(instance_id, name))

    def test_subscription(self, instance_id: str, name: str) -> str:
        """Has a test message sent once. The result is its webhook-id, under which the delivery log has the outcome.

        :raises NotFound: when there is none of this name.
        """
        answer = self._transport.request("POST", f"{_path(instance_id, name)}/test").read(dict[str, str])
        return answer["webhook-id"]

    def replay_subscription(self, instance_id: str, name: str, since: int) -> None:
        """Has the changes after a seq delivered again.

        :raises NotFound: when there is none of this name.
        :raises Gone: when the journal does not reach back to ``since``.
        """
        self._transport.request("POST", f"{_path(instance_id, name)}/replay", body={"since": since})

    def deliveries(
        self,
        instance_id: str,
        name: str,
        *,
        state: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[models.Delivery]:
        """The delivery log of a subscription, the newest first.

        :param state: only those in this state: pending, delivered or dead.
        :param marker: the id before which to begin.
        :raises NotFound: when there is none of this name.
        """
        path = f"{_path(instance_id, name)}/deliveries"
        return self._list(path, "deliveries", models.Delivery, {"state": state}, limit, marker)


def _instance(instance_id: str) -> str:
    return f"/v1/instance/{segment(instance_id)}/status"


def _path(instance_id: str, name: str) -> str:
    return f"{_instance(instance_id)}/subscription/{segment(name)}"


_PAGE_SIZE: Final = 100


class WatchTopicCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` for watch topics."""

    def watch_topics(self) -> list[models.WatchTopic]:
        """All watch topics that the caller may see, by name."""
        return self._get(COLLECTION, list[models.WatchTopic])

    def watch_topic(self, name: str) -> models.WatchTopic:
        """One watch topic.

        :raises NotFound: when there is none of this name.
        """
        return self._get(_topic_path(name), models.WatchTopic)

    def create_watch_topic(self, values: Mapping[str, Any]) -> models.WatchTopic:
        """Creates a watch topic.

        :param values: ``name``, ``spec`` with ``filters``, and optionally ``title``.
        :raises Conflict: when there is a topic of the name.
        :raises BadRequest: when a value is invalid; ``errors`` names it.
        :raises Forbidden: when the policy or the quota does not allow it.
        """
        return self._transport.request("POST", COLLECTION, body=values).read(models.WatchTopic)

    def delete_watch_topic(self, name: str) -> None:
        """Deletes a watch topic.

        :raises NotFound: when there is none of this name.
        """
        self._transport.request("DELETE", _topic_path(name))

    def watch_events(self, name: str, after: int = 0, *, page_size: int = _PAGE_SIZE) -> Iterator[dict[str, Any]]:
        """The past events of a watch topic after a sequence, in order, until there is no further one.

        :param page_size: events of one request.
        :raises NotFound: when there is none of this name.
        :raises Gone: when the journal does not reach back to ``after``.
        """
        while True:
            page = self._get(f"/events{_topic_path(name)}", list[dict[str, Any]], {"after": after, "limit": page_size})
            yield from page
            if len(page) < page_size:
                return
            after = page[-1]["metadata"]["sequenceID"]


def _topic_path(name: str) -> str:
    return self_link(segment(name))
