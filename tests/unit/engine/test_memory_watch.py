# SPDX-License-Identifier: Apache-2.0
"""A process that takes more memory than its model explains is reported, with the containers of plugins that grew."""

from __future__ import annotations

import collections
from typing import Any, ClassVar

import pytest

from watcher_sync.engine.memory_watch import MemoryWatch, container_sizes, resident_bytes

MIB = 2**20

seen_ids: set[str] = set()
"""A container of this module, as a plugin's module may have one."""


class _Archive:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []


class _Leaky:
    """A handler of a plugin."""

    by_name: ClassVar[collections.defaultdict[str, int]] = collections.defaultdict(int)

    def __init__(self) -> None:
        self.archive = _Archive()
        self.itself = self


class WatchedProcess:
    """A process with a memory and a model of given sizes."""

    def __init__(self) -> None:
        self.resident: int | None = 200 * MIB
        self.entities = 1000
        self.plugin = _Leaky()
        self.watch = MemoryWatch(lambda: self.entities, lambda: [self.plugin], resident=lambda: self.resident)

    def is_at(self, resident: int | None, entities: int = 1000) -> None:
        self.resident, self.entities = resident, entities
        self.watch.check()


@pytest.fixture
def process() -> WatchedProcess:
    made = WatchedProcess()
    made.watch.check()
    return made


def test_each_doubling_of_the_memory_is_reported_once(
    process: WatchedProcess, caplog: pytest.LogCaptureFixture
) -> None:
    reported = []
    for mib in range(200, 2000, 10):
        before = len(caplog.records)
        process.is_at(mib * MIB)
        if len(caplog.records) > before:
            reported.append(mib)
    assert reported == [460, 920, 1840]
    assert "has 460 MiB in memory, 2.3 times as much as at " in caplog.messages[0]
    assert "1.0 times as many entities: a plugin may leak" in caplog.messages[0]


def test_memory_that_the_model_explains_is_not_reported(
    process: WatchedProcess, caplog: pytest.LogCaptureFixture
) -> None:
    for factor in range(1, 50):
        process.is_at(200 * factor * MIB, 1000 * factor)
    for _ in range(3):
        process.is_at(9_900 * MIB, 30_000)  # deleted entities give little memory back
        process.is_at(12_000 * MIB, 49_000)
    assert caplog.messages == []


def test_an_engine_that_began_without_entities_may_take_what_its_first_ones_need(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = WatchedProcess()
    process.is_at(100 * MIB, 0)
    process.is_at(700 * MIB, 200_000)
    assert caplog.messages == []
    process.is_at(1500 * MIB, 200_000)
    assert len(caplog.messages) == 1


def test_the_containers_of_the_plugins_that_grew_are_named(
    process: WatchedProcess, caplog: pytest.LogCaptureFixture
) -> None:
    process.plugin.archive.bodies += [b""] * 300
    process.plugin.by_name.update({str(number): number for number in range(200)})
    seen_ids.update(map(str, range(100)))
    try:
        process.is_at(900 * MIB)
    finally:
        seen_ids.clear()
        process.plugin.by_name.clear()
    (message,) = caplog.messages
    here = __name__
    assert message.endswith(
        f"What grew in the plugins: {here}._Archive.bodies by 300 to 300 items, "
        f"{here}._Leaky.by_name by 200 to 200 items, {here}.seen_ids by 100 to 100 items"
    )


def test_a_report_without_a_container_says_so(process: WatchedProcess, caplog: pytest.LogCaptureFixture) -> None:
    process.is_at(900 * MIB)
    assert caplog.messages[0].endswith("no container that an attribute of theirs has")


def test_code_of_a_plugin_does_not_run(process: WatchedProcess) -> None:
    class Trap(dict[str, Any]):
        def __len__(self) -> int:
            raise SystemExit("the watchdog's thread runs this")

    class Lazy:
        @property
        def __class__(self) -> type:
            raise SystemExit("this, too")

    process.plugin.lazy = Lazy()  # type: ignore[attr-defined]
    process.plugin.trap = Trap(one=1)  # type: ignore[attr-defined]
    assert container_sizes([process.plugin])[f"{__name__}._Leaky.trap"] == 1


def test_a_system_without_the_figure_reports_nothing(process: WatchedProcess, caplog: pytest.LogCaptureFixture) -> None:
    process.is_at(None)
    process.is_at(None, 1)
    assert caplog.messages == []


def test_the_memory_of_this_process_is_known() -> None:
    before = resident_bytes()
    assert before is not None
    taken = b"x" * (64 * MIB)
    grown = resident_bytes()
    assert grown is not None
    assert grown - before > 32 * MIB
    assert len(taken) == 64 * MIB
