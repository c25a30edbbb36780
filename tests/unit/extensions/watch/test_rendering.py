# SPDX-License-Identifier: Apache-2.0
"""Rendered changes in memory: what leaves it, and what it must not have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.unit.extensions.watch.test_hub import KINDS, row
from watcher_sync.extensions.watch import rendering
from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.rendering import NotPrepared, Renderer
from watcher_sync.storage.writing.journal import JournalRow

READER = Reader()


class Site:
    """A renderer whose entities have a name in the tables only."""

    def __init__(self) -> None:
        self.read: list[list[int]] = []
        self.during_read: Callable[[], object] = lambda: None
        self.renderer = Renderer(Describer(KINDS), self._values)

    def _values(self, rows: Sequence[JournalRow]) -> dict[int, dict[str, Any]]:
        self.read.append([each.seq for each in rows])
        self.during_read()
        return {each.seq: {"name": f"n{each.seq}", "host": "h1"} for each in rows}

    async def names(self, first: int, last: int) -> list[str]:
        rows = [_row(seq) for seq in range(first, last + 1)]
        prepared = await self.renderer.prepare(rows, _run, ("all",))
        found = [self.renderer.render(each, prepared, "all", READER) for each in rows]
        return [each.change.resource.name for each in found if each is not None]


def _row(seq: int) -> JournalRow:
    whole = row(seq)
    return JournalRow(seq, whole.time, "instance", f"i{seq}", "updated", {"state": ("a", "b")}, {"x": "1"}, "e", "t",
                      "nova", 1, None, "p")  # fmt: skip


async def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    await asyncio.sleep(0)
    return function(*arguments)


def run(test: Callable[[Site], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(Site()), 60))  # type: ignore[arg-type]


def test_a_change_that_leaves_the_memory_before_its_turn_is_rendered_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_CACHED_CHANGES", 10)

    async def test(site: Site) -> None:
        await site.names(6, 15)
        assert await site.names(1, 10) == [f"n{seq}" for seq in range(1, 11)]
        assert site.read == [list(range(6, 16)), [1, 2, 3, 4, 5]]
        assert await site.names(6, 10) == [f"n{seq}" for seq in range(6, 11)]

    run(test)


def test_a_change_that_was_not_prepared_is_refused_and_not_remembered() -> None:
    async def test(site: Site) -> None:
        prepared = await site.renderer.prepare([_row(1)], _run, ("all",))
        with pytest.raises(NotPrepared):
            site.renderer.render(_row(2), prepared, "all", READER)
        assert await site.names(2, 2) == ["n2"]

    run(test)


def test_a_change_of_the_journal_before_does_not_stay_in_memory() -> None:
    async def test(site: Site) -> None:
        site.during_read = site.renderer.forget
        await site.names(1, 3)
        await site.names(1, 3)
        assert site.read == [[1, 2, 3], [1, 2, 3]]

    run(test)


def test_the_changes_in_memory_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_CACHED_BYTES", 1)

    async def test(site: Site) -> None:
        await site.names(1, 3)
        await site.names(1, 3)
        assert site.read == [[1, 2, 3], [1, 2]]

    run(test)
