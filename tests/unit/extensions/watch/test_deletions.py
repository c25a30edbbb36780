# SPDX-License-Identifier: Apache-2.0
"""The comparison of the streams' topics with the stored ones goes on after any error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.extensions.watch.worker import watch_deletions


class Service:
    """Streams on one topic."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()

    def topic_ids(self) -> frozenset[str]:
        return frozenset({"t"})

    def end_topics(self, topic_ids: frozenset[str]) -> None:
        if not self.ended.done():
            self.ended.set_result(topic_ids)


async def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@pytest.mark.parametrize("error", [ZeroDivisionError, DatabaseUnavailable])
def test_an_error_delays_the_end_of_deleted_topics_only(error: type[Exception]) -> None:
    errors = [error("once"), error("twice")]

    def existing(_ids: Iterable[str]) -> frozenset[str]:
        if errors:
            raise errors.pop()
        return frozenset()

    async def main() -> None:
        service: Any = Service()
        task = asyncio.create_task(watch_deletions(service, existing, _run, 0.001))
        try:
            assert await asyncio.wait_for(service.ended, 60) == {"t"}
        finally:
            task.cancel()

    asyncio.run(main())
