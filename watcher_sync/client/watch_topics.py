# SPDX-License-Identifier: Apache-2.0
"""The methods of the client for watch topics, and for their past events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from watcher_sync.client import models
from watcher_sync.client.paging import Reading
from watcher_sync.client.transport import segment

WATCH_TOPICS: Final = "/management/v1alpha1/watchtopics"

_PAGE_SIZE: Final = 100


class WatchTopicCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` for watch topics."""

    def watch_topics(self) -> list[models.WatchTopic]:
        """All watch topics that the caller may see, by name."""
        return self._get(WATCH_TOPICS, list[models.WatchTopic])

    def watch_topic(self, name: str) -> models.WatchTopic:
        """One watch topic.

        :raises NotFound: when there is none of this name.
        """
        return self._get(_path(name), models.WatchTopic)

    def create_watch_topic(self, values: Mapping[str, Any]) -> models.WatchTopic:
        """Creates a watch topic.

        :param values: ``name``, ``spec`` with ``filters``, and optionally ``title``.
        :raises Conflict: when there is a topic of the name.
        :raises BadRequest: when a value is invalid; ``errors`` names it.
        :raises Forbidden: when the policy or the quota does not allow it.
        """
        return self._transport.request("POST", WATCH_TOPICS, body=values).read(models.WatchTopic)

    def delete_watch_topic(self, name: str) -> None:
        """Deletes a watch topic.

        :raises NotFound: when there is none of this name.
        """
        self._transport.request("DELETE", _path(name))

    def watch_events(self, name: str, after: int = 0, *, page_size: int = _PAGE_SIZE) -> Iterator[dict[str, Any]]:
        """The past events of a watch topic after a sequence, in order, until there is no further one.

        :param page_size: events of one request.
        :raises NotFound: when there is none of this name.
        :raises Gone: when the journal does not reach back to ``after``.
        """
        while True:
            page = self._get(f"/events{_path(name)}", list[dict[str, Any]], {"after": after, "limit": page_size})
            yield from page
            if len(page) < page_size:
                return
            after = page[-1]["metadata"]["sequenceID"]


def _path(name: str) -> str:
    return f"{WATCH_TOPICS}/{segment(name)}"
