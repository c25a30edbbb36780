# SPDX-License-Identifier: Apache-2.0
"""Two readers of one cluster, in any order of their listings, events, commits and kills."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clusters import Installation, nothing
from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source.resources import KNOWN
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget, ListingPart
from watcher_sync.model.changes import NEVER, absent
from watcher_sync.reconcile.repair import after
from watcher_sync.testing.kubernetes import KubernetesServer

pytestmark = pytest.mark.slow

PODS = KNOWN["pods"]


class Pods:
    """The pods of a cluster at each of its resourceVersions."""

    def __init__(self, mark: str, numbers: bool) -> None:
        """:param mark: begins each uid. :param numbers: whether resourceVersions can be compared."""
        self._mark, self._numbers = mark, numbers
        self.states: list[dict[str, int]] = [{}]
        """uid -> the resourceVersion of its last change."""
        self.versions = [0]
        """The resourceVersion of each state."""
        self.restored = 0
        """The first state since the last restore of etcd."""

    def change(self, what: int) -> None:
        now, version = dict(self.states[-1]), self.versions[-1] + 1
        left = sorted({uid for state in self.states for uid in state} - now.keys())
        if left and what % 4 == 3:
            now[left[what % len(left)]] = version  # a label that a selector watches is put back
        elif now and what % 4:
            uid = sorted(now)[what % len(now)]
            if what % 4 == 1:
                del now[uid]
            else:
                now[uid] = version
        else:
            now[f"{self._mark}-{len(self.states)}"] = version
        self.add(now, version)

    def add(self, state: dict[str, int], version: int) -> None:
        self.states.append(state)
        self.versions.append(version)

    def restore(self, state: int) -> None:
        """Go back to a snapshot of etcd."""
        self.restored = len(self.states)
        self.add(dict(self.states[state]), self.versions[state])

    def behind(self, by: int) -> int:
        """The state that a server has that is so many changes behind the others."""
        return max(self.restored, len(self.states) - 1 - by)

    def version(self, number: int) -> str:
        return str(number) if self._numbers else f"v{number % 7}-{number}"

    def body(self, uid: str, number: int) -> bytes:
        metadata = {"uid": uid, "name": uid, "namespace": "default", "resourceVersion": self.version(number)}
        return json.dumps({"metadata": metadata}).encode()


class Engine:
    """One life of an engine: the source lists, then watches; what it emitted is committed later, or never."""

    def __init__(self, site: Installation, pods: Pods, epoch: int, listed_at: int) -> None:
        self._site, self._pods, self._epoch = site, pods, epoch
        self._numbers = itertools.count(1)
        self._emitted: list[Event] = []
        self._list(listed_at)

    def _list(self, at: int, *, restored: bool = False) -> None:
        self._at = at
        state = self._pods.states[at]
        for uid, number in state.items():
            self._emit("added", self._pods.body(uid, number))
        listed = {
            "kind": "Pod",
            "namespace": None,
            "uids": sorted(state),
            "resource_version": self._pods.version(self._pods.versions[at]),
            "restored": restored,
        }
        self._emit("listed", json.dumps(listed).encode())

    def _emit(self, what: str, data: bytes) -> None:
        number = next(self._numbers)
        event = Event(
            id=f"{self._epoch}.{number}",
            type=PODS.event_type(what),
            source="edge",
            origin="edge",
            data=data,
            sequence=(self._epoch, number),
            size=len(data),
        )
        self._emitted.append(event)

    def watch(self, most: int) -> None:
        """Emit the events of so many resourceVersions; list again after a restore."""
        if self._at < self._pods.restored:
            self._list(self._pods.restored, restored=True)
        for number in range(self._at + 1, min(len(self._pods.states), self._at + 1 + most)):
            before, after = self._pods.states[number - 1], self._pods.states[number]
            version = self._pods.versions[number]
            for uid in after:
                if uid not in before:
                    self._emit("added", self._pods.body(uid, version))
                elif after[uid] != before[uid]:
                    self._emit("modified", self._pods.body(uid, version))
            for uid in before:
                if uid not in after:
                    self._emit("deleted", self._pods.body(uid, version))
            self._at = number

    def commit(self, most: int) -> None:
        events, self._emitted = self._emitted[:most], self._emitted[most:]
        if events:
            self._site.told(*events)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder: Path = tmp_path_factory.mktemp("two-readers")
    with KubernetesServer() as server:
        site = Installation(folder, {"edge": server}, resources=["pods"])
        site.conf.set_override("max_delete_percent", 100, group="reconcile")
        yield site
        site.close()


def listing(state: dict[str, int], pods: Pods) -> Iterator[ListingPart]:
    objects = [pods.body(uid, number) for uid, number in state.items()]
    yield ListingPart(resource=PODS, namespace=None, objects=objects, begins=True, requests=1)
    yield ListingPart(resource=PODS, namespace=None, ends=True)


def test_a_pod_that_an_outdated_answer_lacks_returns_with_its_next_change_and_is_in_the_tables(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = Pods("outdated", numbers=True)
    pods.change(0)
    engine = Engine(site, pods, next(MARKS) * 1000, 1)
    engine.commit(10)
    with monkeypatch.context() as patched:
        patched.setattr(ClusterTarget, "list_objects", lambda *_, **__: listing({}, pods))
        site.reconciler(nothing).run("edge", allow_deletes=True, deadline=time.monotonic() + deadline(60))
    assert site.objects() == {}
    pods.add({"outdated-1": 2}, 2)
    engine.watch(1)
    engine.commit(10)
    # Each reads the tables from the start, as a new process does.
    assert site.objects() == {"outdated-1": ("Pod", "outdated-1", "2")}
    pods.add({}, 3)
    engine.watch(1)
    engine.commit(10)
    assert site.objects() == {}


def test_a_repair_is_newer_than_the_absence_of_what_an_earlier_repair_made():
    versions = [after(NEVER)]
    for _ in range(3):
        versions += [absent(versions[-1])]
        versions += [after(versions[-1])]
    assert versions == sorted(set(versions))


MARKS = itertools.count(1)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_interleaving_of_listings_a_watch_commits_kills_and_restores_ends_in_the_cluster(
    site: Installation, monkeypatch: pytest.MonkeyPatch, data: Any
) -> None:
    numbers = data.draw(st.booleans(), label="comparable")
    pods = Pods(f"{next(MARKS)}", numbers)
    engine: Engine | None = None
    epochs = itertools.count(next(MARKS) * 1000)
    draw = data.draw

    def steps(most: int) -> None:
        nonlocal engine
        for _ in range(draw(st.integers(0, most), label="steps")):
            what = draw(st.sampled_from(["change", "change", "watch", "commit", "kill", "restore"]))
            if what == "change" or (what == "restore" and not numbers):
                pods.change(draw(st.integers(0, 20)))
            elif what == "restore":
                pods.restore(draw(st.integers(0, len(pods.states) - 1), label="restored"))
            elif what == "kill" or engine is None:
                # A server of the API may be behind the others.
                behind = draw(st.integers(0, 2), label="behind")
                engine = Engine(site, pods, next(epochs), pods.behind(behind))
            elif what == "watch":
                engine.watch(draw(st.integers(1, 3)))
            else:
                engine.commit(draw(st.integers(1, 4)))

    def list_objects(*_args: Any, **_more: Any) -> Iterator[ListingPart]:
        state = pods.states[pods.behind(draw(st.integers(0, 2), label="behind"))]
        steps(3)
        yield from listing(state, pods)
        steps(3)

    def reconcile() -> None:
        reconciler = site.reconciler(nothing)
        assert reconciler.run("edge", allow_deletes=True, deadline=time.monotonic() + deadline(60)).complete

    with monkeypatch.context() as patched:
        patched.setattr(ClusterTarget, "list_objects", list_objects)
        for _ in range(draw(st.integers(1, 3), label="rounds")):
            steps(6)
            reconcile()
        # Everything comes to an end: the last engine reads on, and a reconciliation compares what is at rest.
        engine = engine or Engine(site, pods, next(epochs), len(pods.states) - 1)
        engine.watch(len(pods.states))
        engine.commit(10_000)
        patched.setattr(ClusterTarget, "list_objects", lambda *_, **__: listing(pods.states[-1], pods))
        reconcile()
    expected = {uid: ("Pod", uid, pods.version(number)) for uid, number in pods.states[-1].items()}
    assert site.objects() == expected
    pods.add({}, pods.versions[-1] + 1)
    engine.watch(1)
    engine.commit(10_000)
    assert site.objects() == {}
