# SPDX-License-Identifier: Apache-2.0
"""The watch topic of a source in the region that it follows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import deadline
from watcher_sync.client import Conflict, Forbidden, NotFound
from watcher_sync.client.errors import ProblemError
from watcher_sync.extensions.federation.source.options import RegionSettings
from watcher_sync.extensions.federation.source.region import Region


class _Topics:
    """A region whose topics are refused with these errors; None: not refused."""

    def __init__(self, found: type[ProblemError] | None, made: type[ProblemError] | None) -> None:
        self._found, self._made, self.created = found, made, 0

    def watch_topic(self, name: str) -> None:
        if self._found is not None:
            raise self._found(404, name)

    def create_watch_topic(self, values: Any) -> None:
        if self._made is not None:
            raise self._made(403, values["name"])
        self.created += 1


@pytest.mark.parametrize(
    ("found", "made", "has_topic", "created"),
    [
        (None, None, True, 0),
        (NotFound, None, True, 1),
        (NotFound, Forbidden, False, 0),
        (Conflict, None, True, 1),
        (Conflict, Forbidden, False, 0),
    ],
)
def test_topics_of_other_projects_do_not_keep_a_source_from_its_region(
    found: type[ProblemError] | None, made: type[ProblemError] | None, has_topic: bool, created: int
) -> None:
    settings = RegionSettings(
        source="east", site="east", endpoint="http://127.0.0.1", address=None, stream_tls=None, topic="federation",
        timeout=deadline(1), page_size=10, backoff_max=1.0,
    )  # fmt: skip
    region: Any = Region(settings, SimpleNamespace(auth_url=None, cafile=None, certfile=None, keyfile=None))
    region.client = topics = _Topics(found, made)
    assert region.ensure_topic() is has_topic
    assert topics.created == created
