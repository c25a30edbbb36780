# SPDX-License-Identifier: Apache-2.0
"""What the objects of Kubernetes become in the model, and in which order they may come."""

from __future__ import annotations

import datetime
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.kubernetes.wire.custom_kinds import NamedKind, parse_entry
from watcher_sync.model.changes import NEVER, Outcome, after
from watcher_sync.model.model import Model, Snapshot
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.kubernetes import builders
from watcher_sync.wire.envelopes import read_body

pytestmark = pytest.mark.slow

HANDLER = KubernetesHandler()
HANDLER.custom_kinds = {
    ("edge", "thing.a.example"): parse_entry("a.example/v1/Thing state=.status.phase size=.spec.size"),
    ("far", "thing.a.example"): parse_entry("a.example/v1/Thing"),
    ("edge", "thing.b.example"): parse_entry("b.example/v1/Thing owner=.spec.owner scope=.spec.tenant"),
    ("edge", "job.batch"): NamedKind(group="batch", version="v1", kind="Job"),
    ("edge", "job.a.example"): NamedKind(group="a.example", version="v1", kind="Job"),
}
HANDLER.namespace_projects = {("edge", "vnf-a"): "project-a"}
DISPATCHER = Dispatcher([("kubernetes", HANDLER)])


class Player:
    """Runs events through dispatch, handler and model."""

    def __init__(self) -> None:
        self.model = Model(builtin_kinds())
        self.outcomes: list[Outcome] = []

    def play(self, *events: Event, batch: int = 1) -> Snapshot:
        for start in range(0, len(events), batch):
            transaction = Transaction(self.model)
            for event in events[start : start + batch]:
                entry = DISPATCHER.find(event.type)
                assert entry is not None
                assert entry.call is not None
                self.outcomes.append(transaction.apply(event, entry.call(event, transaction) or ()))
            self.model.publish(transaction)
        return self.model.snapshot()

    def reconcile(self, story: Story, listing: dict[str, int], kind: str = "pod") -> None:
        """Create what the model lacks, as a reconciliation that read this listing: uid -> resourceVersion."""
        transaction = Transaction(self.model)
        for uid, version in listing.items():
            name = "pod" if kind == "pod" else "workload"
            if transaction.get(name, uid) is None:
                event = story.tell(
                    kind, "added", {"metadata": {"uid": uid, "name": uid, "resourceVersion": str(version)}}
                )
                entry = DISPATCHER.find(event.type)
                assert entry is not None
                assert entry.call is not None
                changes = entry.call(event, transaction) or ()
                changes = [msgspec.structs.replace(change, version=after(NEVER)) for change in changes]
                transaction.apply(event, changes)
        self.model.publish(transaction)


class Story:
    """Makes events in their order."""

    def __init__(self, epoch: int = 1_000_000) -> None:
        self._numbers = itertools.count(1)
        self._epoch = epoch

    def tell(self, kind: str, what: str, data: Any, origin: str = "edge") -> Event:
        number = next(self._numbers)
        if isinstance(data, dict) and "metadata" in data:
            data = {**data, "metadata": {"resourceVersion": str(1000 + number), **data["metadata"]}}
        return Event(
            id=f"e{number}",
            type=f"kubernetes.{kind}.{what}",
            source="edge",
            origin=origin,
            data=json.dumps(data).encode(),
            sequence=(self._epoch, number),
        )

    def pod(
        self,
        uid: str,
        *,
        owner: tuple[str, str] | None = None,
        what: str = "modified",
        version: str | None = None,
        **more: Any,
    ) -> Event:
        known = {} if version is None else {"resourceVersion": version}
        return self.tell("pod", what, {"metadata": {"uid": uid, "name": uid, **known, **owned_by(owner)}, **more})

    def thing(self, uid: str, what: str = "modified", group: str = "a.example", **more: Any) -> Event:
        """About a custom object."""
        metadata = {"uid": uid, "name": uid, **more.pop("metadata", {})}
        return self.tell(f"thing.{group}", what, {"metadata": metadata, **more})

    def replica_set(self, uid: str, owner: str | None, what: str = "modified") -> Event:
        owned = owned_by(("Deployment", owner) if owner else None)
        return self.tell("replicaset", what, {"metadata": {"uid": uid, "name": uid, **owned}})


def owned_by(owner: tuple[str, str] | None) -> dict[str, Any]:
    if owner is None:
        return {}
    others = {"kind": "Thing", "uid": "not-the-controller", "name": "t", "apiVersion": "v1"}
    return {"ownerReferences": [others, {"kind": owner[0], "uid": owner[1], "name": "o", "controller": True}]}


@pytest.fixture
def player() -> Player:
    return Player()


@pytest.fixture
def story() -> Story:
    return Story()


def full_pod(**metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "vdu1-abc", "uid": "rs"}}
    obj = builders.pod("vdu1-abc-x", owner=owner, node="node-1", labels={"app": "vdu1"}, phase="Running")
    given = {"uid": "u1", "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "77", **metadata}
    return {**obj, "metadata": {**obj["metadata"], **given}}


def test_a_pod_is_in_the_model_as_the_api_server_tells_it(player: Player, story: Story) -> None:
    (document,) = player.play(story.tell("pod", "added", full_pod())).dump("pod")
    assert document == {
        "id": "u1",
        "name": "vdu1-abc-x",
        "namespace": "default",
        "cluster": "edge",
        "full_name": "edge/default/Pod/vdu1-abc-x",
        "node": "node-1",
        "phase": "Running",
        "reason": None,
        "ready": True,
        "restarts": 0,
        "crash_looping": False,
        "deleted_at": None,
        "ip_address": "10.0.0.1",
        "owner_uid": "rs",
        "owner_kind": "ReplicaSet",
        "workload_uid": None,
        "labels": {"app": "vdu1"},
        "created_at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "resource_version": "77",
        "project_id": None,
    }


def test_an_evicted_pod_and_one_that_is_being_deleted_say_so(player: Player, story: Story) -> None:
    obj = full_pod(deletionTimestamp="2026-01-02T04:00:00Z")
    obj["status"] = {"phase": "Failed", "reason": "Evicted"}
    (pod,) = player.play(story.tell("pod", "modified", obj)).all("pod")
    assert (pod.phase, pod.reason, pod.deleted_at.hour) == ("Failed", "Evicted", 4)


def test_a_long_reason_is_cut_and_costs_no_pod(player: Player, story: Story) -> None:
    waiting = [{"state": {"waiting": {"reason": "x" * 300}}}]
    status = {"phase": "Pending", "containerStatuses": waiting}
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "y" * 300}
    model = player.play(
        story.pod("waits", status=status),
        story.pod("unplaced", status={"phase": "Pending", "conditions": [unschedulable]}),
        story.pod("failed", status={"phase": "Failed", "reason": "z" * 254 + "\0z"}),
    )
    found = {pod.id: pod.reason for pod in model.all("pod")}
    assert found == {"waits": "x" * 254 + "…", "unplaced": "y" * 254 + "…", "failed": "z" * 254 + "…"}


def test_a_version_of_many_clusters_is_stored_by_its_hash(player: Player, story: Story) -> None:
    """An API in front of many clusters puts their versions into one."""
    long = "7" * 1000
    first = player.play(story.pod("p", metadata={"uid": "p", "resourceVersion": long})).get("pod", "p")
    second = player.play(story.pod("p", metadata={"uid": "p", "resourceVersion": long + "8"})).get("pod", "p")
    assert len(first.resource_version) == len(second.resource_version) == 64
    assert first.resource_version != second.resource_version
    player.play(story.tell("pod", "listed", {"kind": "Pod", "uids": [], "resource_version": long}))
    assert not player.model.snapshot().get("pod", "p")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_tells_what_is_wanted_and_what_is(player: Player, story: Story, kind: str) -> None:
    obj = {
        "metadata": {"uid": "w", "name": "vdu1", "namespace": "default", "generation": 4},
        "spec": {"replicas": 3},
        "status": {"readyReplicas": 2, "updatedReplicas": 1, "observedGeneration": 3},
    }
    (found,) = player.play(story.tell(kind.lower(), "added", obj)).all("workload")
    assert (found.kind, found.full_name) == (kind, f"edge/default/{kind}/vdu1")
    assert (found.replicas, found.ready_replicas, found.updated_replicas) == (3, 2, 1)
    assert (found.generation, found.observed_generation) == (4, 3)


def test_a_daemon_set_counts_nodes(player: Player, story: Story) -> None:
    status = {"desiredNumberScheduled": 3, "numberReady": 2, "observedGeneration": 1}
    obj = {"metadata": {"uid": "w", "name": "ds"}, "status": status}
    (found,) = player.play(story.tell("daemonset", "added", obj)).all("workload")
    assert (found.kind, found.replicas, found.ready_replicas, found.updated_replicas) == ("DaemonSet", 3, 2, 0)


def test_of_metadata_alone_no_numbers_are_known(player: Player, story: Story) -> None:
    (found,) = player.play(story.replica_set("rs", "deploy", "added")).all("workload")
    assert (found.replicas, found.ready_replicas, found.owner_uid) == (None, None, "deploy")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_pod_is_traced_to_its_deployment_whatever_comes_first(player: Player, order: tuple[int, ...]) -> None:
    story = Story()
    events = [
        story.pod("p", owner=("ReplicaSet", "rs")),
        story.replica_set("rs", "deploy"),
        story.tell("deployment", "added", {"metadata": {"uid": "deploy", "name": "d"}}),
    ]
    snapshot = player.play(*(events[i] for i in order))
    assert snapshot.get("pod", "p").workload_uid == "deploy"


@pytest.mark.parametrize(
    ("owner", "top"),
    [(None, None), (("StatefulSet", "s"), "s"), (("DaemonSet", "d"), "d"), (("ReplicaSet", "unknown"), None)],
)
def test_the_top_of_other_owners(player: Player, story: Story, owner: Any, top: str | None) -> None:
    assert player.play(story.pod("p", owner=owner)).get("pod", "p").workload_uid == top


def test_a_replica_set_of_its_own_is_the_top(player: Player, story: Story) -> None:
    snapshot = player.play(story.pod("p", owner=("ReplicaSet", "rs")), story.replica_set("rs", None))
    assert snapshot.get("pod", "p").workload_uid == "rs"


def test_an_object_that_is_reported_again_is_a_duplicate_and_writes_nothing(player: Player) -> None:
    first, again = Story(1), Story(2)
    player.play(first.tell("pod", "added", full_pod()))
    generation = player.model.generation
    player.play(again.tell("pod", "added", full_pod()))
    assert player.outcomes == [Outcome.APPLIED, Outcome.DUPLICATE]
    assert player.model.generation == generation


def test_a_later_process_is_newer_than_an_earlier_one(player: Player) -> None:
    old, new = Story(1_000), Story(2_000)
    for _ in range(50):
        player.play(old.pod("p", status={"phase": "Pending"}))
    assert player.play(new.pod("p", status={"phase": "Running"})).get("pod", "p").phase == "Running"


@pytest.mark.parametrize("gone", ["deleted", "absent"])
def test_a_uid_that_a_later_event_shows_alive_is_alive_after_its_deletion(
    player: Player, story: Story, gone: str
) -> None:
    early, first, deletion = story.pod("p"), story.pod("p"), story.pod("p", what=gone)
    player.play(first, deletion, early)
    assert player.model.get("pod", "p") is None
    assert player.outcomes[-1] is Outcome.STALE
    player.play(story.pod("p"), deletion, early)
    assert player.model.get("pod", "p") is not None
    assert player.outcomes[-3:] == [Outcome.APPLIED, Outcome.STALE, Outcome.STALE]


def test_a_deletion_that_comes_late_leaves_an_equal_object_that_a_later_event_shows(
    player: Player, story: Story
) -> None:
    first, deletion, again = (story.pod("p", version="7", what=what) for what in ("added", "deleted", "added"))
    assert player.play(first, again, deletion).ids("pod") == ["p"]


def test_a_listing_deletes_what_it_has_not_in_its_scope_only(player: Player, story: Story) -> None:
    def pod(uid: str, namespace: str, origin: str = "edge") -> Event:
        return story.tell("pod", "added", {"metadata": {"uid": uid, "name": uid, "namespace": namespace}}, origin)

    snapshot = player.play(
        pod("stays", "a"),
        pod("goes", "a"),
        pod("other-namespace", "b"),
        pod("other-cluster", "a", "far"),
        story.replica_set("rs", None),
        story.tell("pod", "listed", {"kind": "Pod", "namespace": "a", "uids": ["stays", "never-seen"]}),
    )
    assert snapshot.ids("pod") == ["other-cluster", "other-namespace", "stays"]
    assert snapshot.ids("workload") == ["rs"]


def test_a_listing_deletes_workloads_of_its_kind_only(player: Player, story: Story) -> None:
    snapshot = player.play(
        story.replica_set("rs", "d"),
        story.pod("p", owner=("ReplicaSet", "rs")),
        story.tell("deployment", "added", {"metadata": {"uid": "d", "name": "d"}}),
        story.tell("replicaset", "listed", {"kind": "ReplicaSet", "namespace": None, "uids": []}),
    )
    assert (snapshot.ids("workload"), snapshot.get("pod", "p").workload_uid) == (["d"], None)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_model_has_what_a_cluster_has_of_kinds_of_one_name_in_several_groups(data: Any) -> None:
    """Objects come and go, some deletions are never delivered, and each kind is listed at any time or never."""
    kinds = ["job.batch", "job.a.example", "thing.a.example", "thing.b.example", "statefulset", "statefulset.a.example"]
    story, player = Story(), Player()
    there: dict[str, set[str]] = {kind: set() for kind in kinds}
    unheard: dict[str, set[str]] = {kind: set() for kind in kinds}
    for number in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(kinds))
        what = data.draw(st.sampled_from(["added", "added", "deleted", "lost", "listed"]))
        uid = data.draw(st.sampled_from(sorted(there[kind]))) if there[kind] and what != "added" else f"u{number}"
        if what == "listed":
            player.play(story.tell(kind, "listed", {"kind": "any", "namespace": None, "uids": sorted(there[kind])}))
            unheard[kind].clear()
        elif what == "added":
            player.play(story.tell(kind, "added", {"metadata": {"uid": uid, "name": "one"}}))
            there[kind].add(uid)
        elif uid in there[kind]:
            there[kind].remove(uid)
            if what == "lost":
                unheard[kind].add(uid)
            else:
                player.play(story.tell(kind, "deleted", {"metadata": {"uid": uid}}))
        snapshot = player.model.snapshot()
        found = {*snapshot.ids("workload"), *snapshot.ids("custom_object")}
        assert found == set().union(*there.values(), *unheard.values())


@pytest.mark.parametrize(
    ("kind", "group", "title"),
    [
        ("deployment", "apps", "Deployment"),
        ("deployment.a.example", "a.example", "deployment.a.example"),
        ("job.batch", "batch", "Job.batch"),
        ("job.a.example", "a.example", "Job.a.example"),
    ],
)
def test_a_workload_has_the_group_of_its_kind_also_in_its_full_name(
    player: Player, story: Story, kind: str, group: str, title: str
) -> None:
    obj = {"metadata": {"uid": "w", "name": "one", "namespace": "default"}}
    (found,) = player.play(story.tell(kind, "added", obj)).all("workload")
    assert (found.api_group, found.kind) == (group, title.partition(".")[0])
    assert found.full_name == f"edge/default/{title}/one"


def test_the_kind_of_a_recorded_object_is_spelled_as_in_the_object(player: Player) -> None:
    obj = {
        "apiVersion": "c.example/v1",
        "kind": "CronTab",
        "metadata": {"uid": "u", "name": "n", "resourceVersion": "1"},
    }
    event = read_body(json.dumps({"type": "ADDED", "object": obj}).encode(), source="edge", number=1)
    found = player.play(event).get("workload", "u")
    assert (found.api_group, found.kind) == ("c.example", "CronTab")


@pytest.mark.parametrize(
    ("api_version", "top", "owner_kind"),
    [("apps/v1", "deploy", "ReplicaSet"), ("apps.kruise.io/v1", "rs", "ReplicaSet.apps.kruise.io")],
)
def test_a_pod_of_another_groups_replica_set_is_traced_to_its_owner_alone(
    player: Player, story: Story, api_version: str, top: str, owner_kind: str
) -> None:
    owner = {"apiVersion": api_version, "kind": "ReplicaSet", "uid": "rs", "controller": True}
    metadata = {"uid": "p", "name": "p", "ownerReferences": [owner]}
    kind = "replicaset" if api_version == "apps/v1" else "replicaset.apps.kruise.io"
    owned = {"uid": "rs", "name": "rs", **owned_by(("Deployment", "deploy"))}
    snapshot = player.play(
        story.tell("pod", "added", {"metadata": metadata}), story.tell(kind, "added", {"metadata": owned})
    )
    found = snapshot.get("pod", "p")
    assert (found.workload_uid, found.owner_kind) == (top, owner_kind)


def test_a_listing_that_comes_late_deletes_nothing_that_is_newer(player: Player, story: Story) -> None:
    listed = story.tell("pod", "listed", {"kind": "Pod", "namespace": None, "uids": []})
    assert player.play(story.pod("new"), listed).ids("pod") == ["new"]


@pytest.mark.parametrize("listed_at", ["99", None, "opaque"])
@pytest.mark.parametrize("kind", ["pod", "deployment"])
def test_a_listing_deletes_nothing_that_a_reconciliation_read_later(
    player: Player, story: Story, kind: str, listed_at: str | None
) -> None:
    player.reconcile(story, {"new": 100}, kind)
    listed = {"kind": "Pod", "namespace": None, "uids": [], "resource_version": listed_at}
    entity = "pod" if kind == "pod" else "workload"
    assert player.play(story.tell(kind, "listed", listed)).ids(entity) == ["new"]


@pytest.mark.parametrize("kind", ["pod", "deployment"])
def test_a_listing_deletes_what_a_reconciliation_read_earlier(player: Player, story: Story, kind: str) -> None:
    player.reconcile(story, {"gone": 100}, kind)
    listed = {"kind": "Pod", "namespace": None, "uids": [], "resource_version": "100"}
    assert not player.play(story.tell(kind, "listed", listed)).ids("pod" if kind == "pod" else "workload")


def test_after_a_restore_a_listing_deletes_what_a_reconciliation_read_before_it(player: Player, story: Story) -> None:
    player.reconcile(story, {"ghost": 823})
    listed = {"kind": "Pod", "namespace": None, "uids": [], "resource_version": "603", "restored": True}
    assert not player.play(story.tell("pod", "listed", listed)).ids("pod")


@pytest.mark.parametrize("what", ["added", "modified", "deleted", "absent"])
@pytest.mark.parametrize("kind", ["pod", "deployment", "daemonset"])
def test_an_object_with_the_uid_of_another_clusters_is_refused(
    player: Player, story: Story, kind: str, what: str
) -> None:
    data = {"metadata": {"uid": "u", "name": "a"}}
    before = player.play(story.tell(kind, "added", data))
    with pytest.raises(InvalidEvent, match=r"metadata\.uid: belongs to an object of the cluster edge$"):
        player.play(story.tell(kind, what, data, origin="other"))
    name = "pod" if kind == "pod" else "workload"
    assert player.model.snapshot().get(name, "u") == before.get(name, "u")


def test_a_cluster_is_connected_disconnected_and_synced(player: Player, story: Story) -> None:
    synced = {"has_synced": True, "last_sync_at": "2026-01-01T00:00:00Z", "counts": {"Pod": 3}}
    events = [
        story.tell("cluster", "connected", {"state": "connected", "detail": None, "version": "v1.31.0"}),
        story.tell("cluster", "synced", synced),
        story.tell("cluster", "disconnected", {"state": "disconnected", "detail": "refused"}),
    ]
    for order in itertools.permutations(events):
        cluster = Player().play(*order).get("cluster", "edge")
        assert (cluster.state, cluster.detail, cluster.has_synced) == ("disconnected", "refused", True)
        assert cluster.counts == {"Pod": 3}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"metadata": {"name": "no-uid"}}, "object: Object missing required field `uid` - at `$.metadata`"),
        (
            {"metadata": {"uid": "u"}, "status": {"phase": 7}},
            "object: Expected `str | null`, got `int` - at `$.status.phase`",
        ),
        ([], "object: Expected `object`, got `array`"),
    ],
)
def test_an_object_that_makes_no_sense_is_invalid_and_says_where(story: Story, data: Any, reason: str) -> None:
    with pytest.raises(InvalidEvent) as raised:
        Player().play(story.tell("pod", "added", data))
    assert str(raised.value) == reason


def test_an_event_without_a_place_in_the_order_is_invalid(player: Player) -> None:
    event = Event(id="e", type="kubernetes.pod.added", source="edge", data=b'{"metadata":{"uid":"u"}}')
    with pytest.raises(InvalidEvent, match="sequence: missing"):
        player.play(event)


def test_a_recorded_watch_is_replayed_in_its_order_and_older_than_what_is_live(player: Player) -> None:
    def line(number: int, what: str, phase: str) -> Event:
        obj = {"kind": "Pod", "metadata": {"uid": "u", "name": "p", "resourceVersion": f"{number}"}}
        document = {"type": what, "object": {**obj, "status": {"phase": phase}}}
        return read_body(json.dumps(document).encode(), source="edge", number=number)

    recorded = [line(1, "ADDED", "Pending"), line(2, "MODIFIED", "Running")]
    assert player.play(*recorded).get("pod", "u").phase == "Running"
    player.play(Story().pod("u", status={"phase": "Failed"}), *recorded)
    assert player.model.get("pod", "u").phase == "Failed"


# The law


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Pods, ReplicaSets and custom objects that come, change, change hands, go and may return, in a legal order."""
    story = Story()
    events = []
    pods, sets, things = ["p1", "p2", "p3"], ["r1", "r2"], ["t1", "t2"]
    for _ in range(draw(st.integers(3, 14))):
        uid = draw(st.sampled_from([*pods, *sets, *things]))
        what = draw(st.sampled_from(["modified", "modified", "modified", "deleted"]))
        if uid in things:
            status = draw(st.sampled_from([{}, {"phase": "Running"}, {"phase": ["odd"]}]))
            owner = draw(st.sampled_from([("Thing", "t1"), ("Deployment", "d1"), None]))
            events.append(story.thing(uid, what, metadata=owned_by(owner), status=status, spec={"size": len(events)}))
        elif uid in sets:
            events.append(story.replica_set(uid, draw(st.sampled_from(["d1", "d2", None])), what))
        else:
            owners = [("ReplicaSet", "r1"), ("ReplicaSet", "r2"), ("StatefulSet", "s1"), None]
            phase = draw(st.sampled_from(["Pending", "Running", "Failed"]))
            version = draw(st.sampled_from(["7", None]))  # after a restore of etcd an object may be as it was
            owner = draw(st.sampled_from(owners))
            events.append(story.pod(uid, owner=owner, what=what, version=version, status={"phase": phase}))
    return events


def shown(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    return {kind: list(snapshot.dump(kind)) for kind in ("pod", "workload", "custom_object")}


@settings(max_examples=400, deadline=None)
@given(events=histories(), data=st.data())
def test_any_permutation_and_duplication_of_a_history_ends_in_the_same_model(events: list[Event], data: Any) -> None:
    expected = shown(Player().play(*events))
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=5))
    order = data.draw(st.permutations([*range(len(events)), *again]))
    batch = data.draw(st.integers(1, len(order)))
    assert shown(Player().play(*(events[i] for i in order), batch=batch)) == expected


@settings(max_examples=100, deadline=None)
@given(events=histories())
def test_a_history_leaves_each_pod_traced_by_what_is_there_in_the_end(events: list[Event]) -> None:
    snapshot = Player().play(*events, batch=3)
    for pod in snapshot.all("pod"):
        owner = snapshot.get("workload", pod.owner_uid) if pod.owner_uid else None
        top = pod.owner_uid if pod.owner_kind != "ReplicaSet" else owner and (owner.owner_uid or owner.id)
        assert pod.workload_uid == top


@settings(max_examples=100, deadline=None)
@given(events=histories(), data=st.data())
def test_a_listing_in_its_place_makes_the_model_what_the_server_has(events: list[Event], data: Any) -> None:
    """Some deletions are never delivered; the listing removes their pods."""
    last = {e.read()["metadata"]["uid"]: e.type for e in events if e.type.startswith("kubernetes.pod.")}
    exists = {uid for uid, event_type in last.items() if not event_type.endswith(".deleted")}
    heard = [e for e in events if e.type != "kubernetes.pod.deleted" or data.draw(st.booleans())]
    story = Story(2_000_000)
    listed = story.tell("pod", "listed", {"kind": "Pod", "namespace": None, "uids": sorted(exists)})
    assert set(Player().play(*heard, listed, listed).ids("pod")) == exists


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, int]]:
    """What a cluster has at each of its resourceVersions: uid -> the version of the pod."""
    states: list[dict[str, int]] = [{}]
    for version in range(1, draw(st.integers(1, 12))):
        uid = draw(st.sampled_from([*sorted(states[-1]), f"p{version}"]))
        state = {**states[-1], uid: version}
        if uid in states[-1] and draw(st.booleans()):
            del state[uid]
        states.append(state)
    return states


@settings(max_examples=300, deadline=None)
@given(states=clusters(), data=st.data())
def test_whichever_of_two_listings_is_committed_first_no_living_pod_is_lost(
    states: list[dict[str, int]], data: Any
) -> None:
    """The source lists, and watches from there; a reconciliation lists and writes at any other moment."""
    story, player, place = Story(), Player(), st.integers(0, len(states) - 1)
    begin, read = data.draw(place, label="listed"), data.draw(place, label="reconciled")

    def pod(uid: str, version: int, what: str) -> Event:
        return story.tell("pod", what, {"metadata": {"uid": uid, "name": uid, "resourceVersion": str(version)}})

    events = [pod(uid, version, "added") for uid, version in states[begin].items()]
    uids = sorted(states[begin])
    listed = {"kind": "Pod", "namespace": None, "uids": uids, "resource_version": str(begin)}
    events.append(story.tell("pod", "listed", listed))
    for version in range(begin + 1, len(states)):
        before, after = states[version - 1], states[version]
        events += [pod(uid, version, "modified") for uid in after if before.get(uid) != after[uid]]
        events += [pod(uid, version, "deleted") for uid in before if uid not in after]
    written = data.draw(st.integers(0, len(events)), label="written")
    player.play(*events[:written])
    player.reconcile(story, states[read])
    found = set(player.play(*events[written:]).ids("pod"))
    assert set(states[-1]) <= found
    # What came and went before the watch began is removed by the reconciliation's next listing.
    assert found <= set(states[read]) | set(states[-1])
