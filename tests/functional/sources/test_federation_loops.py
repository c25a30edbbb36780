# SPDX-License-Identifier: Apache-2.0
"""Installations that follow each other in a circle, as executables: one leaves out what came round, and names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.sources.federated import Member, dumped
from tests.simulated import nova
from tests.waiting import wait_until
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert, Version

pytestmark = [pytest.mark.rare, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("names", "other"), [("ab", "a"), ("abc", "b")])
def test_the_source_that_goes_on_in_a_circle_shows_that_its_region_refuses(
    install: Callable[..., Installation], tmp_path: Path, names: str, other: str
) -> None:
    members = {name: Member(name, install(f"sqlite:///{tmp_path / f'{name}.sqlite'}")) for name in names}
    for name, followed in zip(names, names[1:] + names[0], strict=True):
        members[name].follow(followed, members[followed])
    write(members["a"], "of-a")  # it comes back to the last one, which refuses then
    for member in members.values():
        member.start()
    last = names[-1]

    def shown(name: str) -> tuple[str, str]:
        (row,) = members[name].source_rows().values()
        return row.state, row.detail

    wait_until(lambda: all(member.source_rows() for member in members.values()), 120, "the states of the sources")
    wait_until(lambda: shown(last)[0] == "connected" and "loop" in shown(last)[1], 120, "a refusal")
    circle = " -> ".join(("a", *names[1:], "a"))
    line = f"the source a of the region refuses the loop {circle}; remove one of the sources of the loop"
    wait_until(lambda: shown(other) == ("connected", line), 150, "the other side shows it")
    assert all(shown(name) == ("connected", "") for name in names if name not in (last, other))


def write(member: Member, entity_id: str) -> None:
    with DirectWriter(member.site.store, nova()).begin() as cycle:
        upsert = Upsert("aggregate", entity_id, Version("1"), {"state": {"name": "n"}})
        cycle.write(Event(id=entity_id, type="test", source="test"), [upsert])


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_a_circle_is_refused_with_its_sites(install: Callable[..., Installation], tmp_path: Path, names: str) -> None:
    members = {name: Member(name, install(f"sqlite:///{tmp_path / f'{name}.sqlite'}")) for name in names}
    for name, followed in zip(names, names[1:] + names[0], strict=True):
        members[name].follow(followed, members[followed])
        write(members[name], f"of-{name}")
    for member in members.values():
        member.start()

    def refusals() -> list[str]:
        rows = [row for member in members.values() for row in member.source_rows().values()]
        return [row.detail for row in rows if row.detail.startswith("loop ")]

    wait_until(refusals, 120, "a refusal")
    circles = [" -> ".join((*names[n:], *names[: n + 1])) for n in range(len(names))]
    assert any(f"loop {circle}: the region follows this installation" in refusals()[0] for circle in circles)
    ids = {name: [each["id"] for each in dumped(member.site.store, "aggregate")] for name, member in members.items()}
    assert all(one.count(":") <= len(names) for found in ids.values() for one in found), ids
    assert all(f"of-{name}" in found for name, found in ids.items())
