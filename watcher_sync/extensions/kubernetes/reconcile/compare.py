# SPDX-License-Identifier: Apache-2.0
"""Compares one Kubernetes cluster with the model. Nothing is written here.

The comparison takes the model's entities before it lists the cluster. Events may arrive while it lists.
So it waits a moment, and drops each difference whose entity was written since.

An object that the model lacks may be gone again without an event. So it lists again before it reports one, and once
more after the repair.

If one listing of a kind fails, the whole kind is unknown. The comparison skips all objects of the kind and reports
none of them as gone.

The comparison uses no lease or lock. It costs as many requests as the objects need pages.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, ReconcileError
from watcher_sync.extensions.kubernetes.kinds import CustomObject, Pod, Workload
from watcher_sync.extensions.kubernetes.source.connection import ApiConnection
from watcher_sync.extensions.kubernetes.source.resources import Resource, key_of
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget, ListingPart
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.drift import Divergence, LiveView, compare

_CONFIRM_SECONDS: Final = 1.0
"""Seconds that a difference has to last before it counts: a watch delivers its event within them."""

_COMPARED: Final = ("workload", "pod", "custom_object")


class Comparison(msgspec.Struct, kw_only=True):
    """What a cluster has, and where the model differs."""

    since: int
    """The journal's seq before the listing began."""
    live: LiveView
    requests: int
    failures: Mapping[str, str]
    """Resource -> why it could not be listed."""
    failed_kinds: set[str]
    """Kinds of objects that some listing failed for, such as ``Pod`` or ``Kind.group``."""
    unlisted: Mapping[str, str]
    """What was not listed completely, and why; see
    :func:`~watcher_sync.extensions.kubernetes.source.resources.key_of`."""
    found: list[tuple[Divergence, Event]]
    """(what differs, the event that corrects it)."""
    unknown: Mapping[str, str]
    """``<kind> <object>`` -> why a listed object could not be read."""
    sizes: Mapping[str, int]
    """Kind of object -> entities of the model that were compared."""
    complete: Collection[str]
    """Kinds of the model whose entities were all compared."""

    def refused_deletes(self, max_percent: float) -> dict[str, int]:
        """Return kind of object -> deletions that the delete guard refuses.

        :param max_percent: of the objects of one kind that may be lost at once.
        """
        gone = collections.Counter(kind_of_object(what) for what, _ in self.found if what.gone)
        lost = losses((what for what, _ in self.found), self.live)
        return {
            kind: gone[kind] for kind, count in lost.items() if refuses_deletes(count, self.sizes[kind], max_percent)
        }


class _ListedKind(msgspec.Struct, kw_only=True):
    """A kind of object that was listed completely."""

    resource: Resource
    namespaces: set[str | None] = msgspec.field(default_factory=set)
    """The namespaces that were listed; None: all of them, or the kind has no namespace."""
    unread: set[str] = msgspec.field(default_factory=set)
    """The uids of objects that exist and are too large to be read."""


class ClusterComparer:
    """Compares clusters with the model. For any thread; it has no state.

    :param wait: waits for a number of seconds.
    """

    def __init__(self, context: Context, *, wait: Callable[[float], None]) -> None:
        self._context = context
        self._wait = wait

    def compare(
        self, target: ClusterTarget, connection: ApiConnection, base: View, namespace: str | None, deadline: float
    ) -> Comparison:
        """List a cluster and compare it.

        :param namespace: only this one; None: all that the source follows.
        :param deadline: ``time.monotonic()`` by which the listing is to end.
        :raises ReconcileError: when nothing could be listed.
        """
        since = self._context.store.head()
        # Before the listing: a view over the tables shows the state of the moment at which it is read.
        known = {kind: _known(base, kind, target.cluster, namespace) for kind in _COMPARED}
        live = self._live_view(known)
        lists, requests = _list(target, connection, live, namespace, deadline)
        failures = _failures(lists)
        if not lists:
            raise ReconcileError(f"the source {target.source} does not follow the namespace {namespace}")
        if all(listed.failure is not None for listed in lists):
            raise ReconcileError(f"the cluster {target.cluster} cannot be listed: {next(iter(failures.values()))}")
        failed_kinds, unlisted = _failed_kinds(lists), _unlisted(lists)
        found, sizes = self._differing(target, known, live, _listed_kinds(lists, target, namespace))
        if found:
            self.wait_for_events()
            if any(what.model is None for what, _ in found):
                live = self._live_view(known)
                lists, more = _list(target, connection, live, namespace, deadline)
                requests += more
                failures |= _failures(lists)
                failed_kinds |= _failed_kinds(lists)
                unlisted |= _unlisted(lists)
                found = [(w, event) for w, event in found if w.model is not None or w.id in live.found[w.kind]]
            now = self._context.view()
            found = [(what, event) for what, event in found if what.is_unwritten_since(now)]
        return Comparison(
            since=since,
            live=live,
            requests=requests,
            failures=failures,
            failed_kinds=failed_kinds,
            unlisted=unlisted,
            found=found,
            unknown={f"{part.resource.title} {uid}": why for part in lists for uid, why in part.unread.items()},
            sizes=sizes,
            complete=[
                *(["pod"] if all(key.rpartition("/")[2] != "Pod" for key in unlisted) else []),
                *([] if failures else ["workload", "custom_object"]),
            ],
        )

    def wait_for_events(self) -> None:
        """Wait until a watch has delivered the events of what the listing shows."""
        self._wait(_CONFIRM_SECONDS)

    def _live_view(self, known: Mapping[str, Sequence[Entity]]) -> LiveView:
        """Return an empty view of the cluster."""
        entities = {kind: {entity.id: entity for entity in found} for kind, found in known.items()}
        return LiveView(self._context.store.kinds, self._context.dispatcher, entities)

    def _differing(
        self,
        target: ClusterTarget,
        known: Mapping[str, Sequence[Entity]],
        live: LiveView,
        listed: Mapping[str, _ListedKind],
    ) -> tuple[list[tuple[Divergence, Event]], dict[str, int]]:
        """Return the differences with their events, workloads first, and kind of object -> compared entities.

        :param known: kind -> what the model had before the listing.
        :param listed: the kinds of objects that were listed completely.
        """
        found: list[tuple[Divergence, Event]] = []
        sizes: collections.Counter[str] = collections.Counter()
        for kind in _COMPARED:
            there = {i: f for i, f in live.found[kind].items() if _title_of(f.entity) in listed}
            before = [e for e in known[kind] if _is_listed(e, listed)]
            sizes.update(map(_title_of, before))
            for what in compare(kind, before, there):
                if what.live is None:
                    assert what.model is not None
                    found.append(self._gone(target, kind, what.model, listed))
                    continue
                if kind == "custom_object" and what.fields == ["resource_version"]:
                    continue  # the source tells no such update of a custom object
                event = what.live.event
                assert event is not None
                happened = "added" if what.model is None else "modified"
                event = msgspec.structs.replace(
                    event, type=f"{event.type.rpartition('.')[0]}.{happened}", subject=what.id
                )
                found.append((what, event))
        return found, sizes

    @staticmethod
    def _gone(
        target: ClusterTarget, kind: str, entity: Entity, listed: Mapping[str, _ListedKind]
    ) -> tuple[Divergence, Event]:
        """Return that an entity exists in the model alone, with its deletion."""
        part = ListingPart(resource=listed[_title_of(entity)].resource, namespace=None)
        data = msgspec.json.encode({"metadata": {"uid": entity.id}})
        event = part.event(data, source=target.source, cluster=target.cluster, what="absent")
        return Divergence(kind=kind, id=entity.id, model=entity, live=None), event

    def created_but_gone(
        self, comparison: Comparison, target: ClusterTarget, connection: ApiConnection, namespace: str | None,
        deadline: float,
    ) -> list[tuple[Divergence, Event]]:  # fmt: skip
        """List again after the repair, if it created entities, and return those that no longer exist.

        A watch may begin after the listing that found them and before the repair. It reports no deletion of them. An
        object that this listing lacks was deleted: its uid is never used again.

        :param comparison: as :meth:`compare` returned it; its failures include those of this listing afterwards.
        :param namespace, deadline: as for :meth:`compare`.
        :returns: (what is gone, the event that corrects it).
        """
        if all(what.model is not None for what, _ in comparison.found):
            return []
        now = self._context.view()
        written = {(k, e.id): e for k in _COMPARED for e in _known(now, k, target.cluster, namespace)}
        created = [
            written[what.kind, what.id]
            for what, _ in comparison.found
            if what.model is None and (what.kind, what.id) in written
        ]
        live = self._live_view({})
        lists, requests = _list(target, connection, live, namespace, deadline)
        comparison.requests += requests
        comparison.failures = {**comparison.failures, **_failures(lists)}
        comparison.failed_kinds |= _failed_kinds(lists)
        listed = _listed_kinds(lists, target, namespace)
        return [
            self._gone(target, kind_of(type(entity)).name, entity, listed)
            for entity in created
            if entity.id not in live.found[kind_of(type(entity)).name] and _is_listed(entity, listed)
        ]


def _failures(lists: Sequence[ListingPart]) -> dict[str, str]:
    """Return resource -> why it could not be listed."""
    return {
        f"{listed.resource.name}{f' of {listed.namespace}' if listed.namespace else ''}": listed.failure
        for listed in lists
        if listed.failure is not None
    }


def _failed_kinds(lists: Sequence[ListingPart]) -> set[str]:
    return {listed.resource.title for listed in lists if listed.failure is not None}


def _unlisted(lists: Sequence[ListingPart]) -> dict[str, str]:
    return {key_of(part.resource, part.namespace): part.failure for part in lists if part.failure is not None}


def _title_of(entity: Entity) -> str:
    return entity.title if isinstance(entity, (Workload, CustomObject)) else "Pod"


def kind_of_object(what: Divergence) -> str:
    """Return the kind by which the delete guard counts an object, such as ``Pod`` or ``Kind.group``."""
    entity = what.model if what.live is None else what.live.entity
    assert entity is not None
    return _title_of(entity)


def _known(base: View, kind: str, cluster: str, namespace: str | None) -> list[Entity]:
    """Return the model's entities of a kind in a cluster, or in one of its namespaces; no custom objects of these."""
    if namespace is None:
        return list(base.by(kind, "cluster", cluster))
    if kind == "custom_object":
        return []
    return [e for e in base.by(kind, "namespace", namespace) if getattr(e, "cluster", None) == cluster]


def _list(
    target: ClusterTarget, connection: ApiConnection, live: LiveView, namespace: str | None, deadline: float
) -> tuple[list[ListingPart], int]:
    """List into the view. Return how each list ended, and the number of requests.

    A list that failed may leave a part of its objects in the view; its whole kind is unknown.
    """
    lists: list[ListingPart] = []
    requests = 0
    added: list[tuple[str, str]] = []
    unreadable: str | None = None
    unread: dict[str, str] = {}
    for part in target.list_objects(connection, namespace, deadline=deadline):
        requests += part.requests
        if part.begins:
            live.forget(added)
            added, unreadable, unread = [], None, {}
        unread |= part.unread
        if unreadable is None:
            try:
                added += live.add(
                    part.event(data, source=target.source, cluster=target.cluster) for data in part.objects
                )
            except InvalidEvent as exc:
                unreadable = f"an object cannot be read: {exc}"
        if part.ends:
            part.failure = part.failure or unreadable
            part.objects, part.unread = (), unread
            lists.append(part)
            added, unread = [], {}
    return lists, requests


def _listed_kinds(lists: Sequence[ListingPart], target: ClusterTarget, namespace: str | None) -> dict[str, _ListedKind]:
    """Return the completely listed kinds of objects, by their name in the model.

    :param namespace: the only one that is compared; kinds without a namespace are left out then.
    """
    found: dict[str, _ListedKind] = {}
    unknown = _failed_kinds(lists) | target.unfollowed
    for listed in lists:
        resource = listed.resource
        if resource.title in unknown or (namespace is not None and not resource.namespaced):
            continue
        kind = found.setdefault(resource.title, _ListedKind(resource=resource))
        kind.unread |= listed.unread.keys()
        kind.namespaces.add(listed.namespace if resource.namespaced and not listed.unserved else None)
    return found


def _is_listed(entity: Entity, listed: Mapping[str, _ListedKind]) -> bool:
    """Whether the listings would contain the entity if it existed, and could read it."""
    kind = listed.get(_title_of(entity))
    if kind is None or entity.id in kind.unread:
        return False
    return None in kind.namespaces or getattr(entity, "namespace", None) in kind.namespaces


def losses(found: Iterable[Divergence], live: View) -> dict[str, int]:
    """Return kind of object -> entities that are gone and not replaced, for the delete guard.

    A pod that another pod of the same controller replaces is no loss, so a rollout never trips the guard. The
    controller's uid (ownerReference) identifies the place, and the controller has to exist on both sides. Names do not
    count, because another cluster may have the same.

    :param live: the listed objects.
    """
    lost: collections.Counter[str] = collections.Counter()
    gone: collections.Counter[tuple[str, str]] = collections.Counter()
    new: collections.Counter[tuple[str, str]] = collections.Counter()
    for what in found:
        if what.live is None:
            assert what.model is not None
            place = _controller(what.model, live)
            if place is None:
                lost[kind_of_object(what)] += 1
            else:
                gone[kind_of_object(what), place] += 1
        elif what.model is None and (place := _controller(what.live.entity, live)) is not None:
            new[kind_of_object(what), place] += 1
    for key, count in gone.items():
        lost[key[0]] += max(count - new[key], 0)
    return {kind: count for kind, count in lost.items() if count}


def _controller(entity: Entity, live: View) -> str | None:
    """Return the uid at the top of the owner chain, if the cluster still has that object; else None.

    Anybody may make ReplicaSets that own each other: such a chain has no top.
    """
    if not isinstance(entity, (Pod, Workload)):
        return None
    uid = getattr(entity, "workload_uid", None) or entity.owner_uid
    passed: set[str] = set()
    while uid is not None and uid not in passed and isinstance(found := live.get("workload", uid), Workload):
        if found.title != "ReplicaSet" or found.owner_uid is None:
            return uid
        passed.add(uid)
        uid = found.owner_uid
    return uid if uid is not None and live.get("custom_object", uid) is not None else None
