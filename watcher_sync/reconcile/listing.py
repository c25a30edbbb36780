# SPDX-License-Identifier: Apache-2.0
"""A reconciler that only lists: the subclass says what exists, and everything else is done here.

Guaranteed, beside what :mod:`~watcher_sync.reconcile.base` says:

* A listing that raises changes nothing.
* An odd entry costs itself alone, and what is lacking is confirmed (:mod:`~watcher_sync.reconcile.entries`).
* A listing judges only what it could have seen. An entity that was written after the listing began stays as it is.
* What is written has a version just after the stored one. Every event that is still to come is newer.
* A deletion is weak: a later event or listing that shows the entity makes it again.

Not guaranteed: which of two events that were in flight during the listing is the last one. The next run decides.
"""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from oslo_config import cfg

from watcher_sync.commit.direct import DirectCommitCycle
from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, text_of
from watcher_sync.model.changes import Change, Delete, Outcome, Upsert, absent, after
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.kinds import Entity, Kind, kind_of
from watcher_sync.model.model import Staged
from watcher_sync.model.scopes import prefix_of
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, Reconciler, Report
from watcher_sync.reconcile.drift import Divergence, LiveEntity, compare
from watcher_sync.reconcile.entries import Entries, ListedFields
from watcher_sync.reconcile.entries import UnreadableEntry as UnreadableEntry
from watcher_sync.reconcile.entries import read_entries as read_entries
from watcher_sync.reconcile.repair import Write, prefetch, write_portions
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.source_status import declare_inventory, forget_inventory, write_inventory

_MARK_SECONDS: Final = 5.0
"""Marked entities begin a run of a scope at most this often."""

_DELETED_FOR_GOOD: Final = "an event deleted it, and ids of its kind are not used again"


class ListingReconciler(Reconciler):
    """Compares the model with listings. A subclass names ``lists`` and implements :meth:`list_live`."""

    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = {}
    """Class of a kind -> its fields that the live system tells; no others are compared or written.

    With fields of the kind's anchor facet, a listing also creates and deletes entities; without, it updates them. They
    are created in this order of kinds, and deleted in the opposite one.
    """
    finds: ClassVar[Collection[type[Entity]]] = ()
    """Classes of the kinds that :meth:`find_live` can ask for. Others are gone if a listing lacks them."""
    options: ClassVar[list[cfg.Opt]] = [
        cfg.FloatOpt(
            "interval", min=1.0, mutable=True, help="Seconds between two runs; by default those of [reconcile]."
        ),
    ]
    """A subclass adds its own; ``interval`` is always among them."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = {option.dest for option in cls.options}
        cls.options = [*cls.options, *(o for o in ListingReconciler.options if o.dest not in own)]

    def __init__(self, conf: cfg.ConfigOpts, context: Context) -> None:
        """:raises ConfigError: naming the option that is wrong.

        :raises TypeError: ``lists`` names a class that is no kind of this process, or a field that cannot be listed.
        """
        super().__init__(conf, context)
        policies(conf, context.store.kinds)
        listed = [_listed_kind(context, *each) for each in self.lists.items()]
        self._listed = {each.kind.name: each for each in listed}
        self._marks: dict[str, tuple[int, float]] = {}
        """Scope -> the marks that a run was requested for, and when."""

    @abc.abstractmethod
    def list_live(self, scope: str, deadline: float) -> Iterable[Entity | UnreadableEntry]:
        """List the scope completely. It may be a generator; nothing is compared before its end.

        :func:`read_entries` makes entities of what a service lists, so that an odd value costs one entity only.
        Each entity has an id and the listed fields. A field without a value becomes None, as does what the live system
        does not know. ``msgspec.UNSET`` leaves a field as the model has it.

        :param deadline: ``time.monotonic()`` by which it is to end.
        :raises ReconcileError: the live system cannot be listed, or not completely.
        """

    def find_live(self, scope: str, cls: type[Entity], entity_id: str, deadline: float) -> Entity | None:
        """Ask the live system for one entity of a class in :attr:`finds`.

        :returns: as :meth:`list_live` lists it; None: it does not exist.
        :raises ReconcileError: it is unknown whether it exists, such as for an account that may not see it.
        """
        raise NotImplementedError

    def known(self, scope: str, kind: str, view: View) -> Iterable[Entity]:
        """Return the entities of the model that a listing of the scope shows if they exist: by default all of the kind.

        What is returned and not listed is gone. Several scopes are chosen by an index or by a prefix of the ids.
        No entity may move from one scope to another.
        """
        return view.all(kind)

    def scopes(self) -> Sequence[str]:
        """Return what is listed on its own: by default one scope, with the name of the reconciler."""
        return [self.name]

    def interval(self, scope: str) -> float | None:
        """Return ``[reconciler_<name>] interval``; None, which is the default: ``[reconcile] interval``."""
        seconds: float | None = self.conf[f"reconciler_{self.name}"].interval
        return seconds

    def wants_run(self, scope: str) -> bool:
        """Return whether a handler has marked an entity of the listed kinds as doubtful since the last request."""
        now, doubts = time.monotonic(), self.context.doubts
        marks = sum(doubts.total(name) for name in self._listed)
        known, requested_at = self._marks.get(scope, (0, -_MARK_SECONDS))
        if marks == known or now - requested_at < _MARK_SECONDS:
            return False
        self._marks[scope] = marks, now
        return True

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """List one scope, and write the differences; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        try:
            report = self._reconcile(scope, dry_run, allow_deletes, deadline)
        except DatabaseUnavailable:
            raise
        except Exception as exc:
            if not dry_run:
                self._note(scope, text_of(exc))
            raise
        if not dry_run:
            self._note(scope, report.problem)
        return report

    def inventory_problem(self) -> str | None:
        """Forget the inventory if nothing is listed. Plugins decide nothing about the readiness of an engine."""
        if not self.scopes():
            forget_inventory(self.context.store.database, self.name)
        return None

    def _note(self, scope: str, problem: str) -> None:
        """Store how a run ended, for other processes."""
        database, now = self.context.store.database, self.context.now()
        name = scope if scope == self.name else self._source(scope)
        write_inventory(database, declare_inventory(database, name, now).after(problem, now))

    def _reconcile(self, scope: str, dry_run: bool, allow_deletes: bool, deadline: float) -> Report:
        began = time.monotonic()
        self.context.store.sites.refresh()
        since = self.context.store.head()  # before the view: what is newer than it is not judged
        view = self.context.view()
        known = {name: self._known(scope, listed.kind, view) for name, listed in self._listed.items()}
        percent = 100.0 if allow_deletes else float(self.conf.reconcile.max_delete_percent)
        entries = self._read(scope, known, since, percent, deadline)
        live = entries.live
        found = [what for name in self._listed for what in self._compare(name, known[name], live[name], view, since)]
        lost = {name: sum(what.gone for what in found if what.kind == name) for name in self._listed}
        refused = {n: count for n, count in lost.items() if refuses_deletes(count, len(known[n]), percent)}
        policy = dict.fromkeys(self._listed, HEAL) | policies(self.conf)
        written = _ListingWriter(self, self._source(scope), since)
        if not dry_run:
            written.write([w for w in found if policy[w.kind] == HEAL and not _waits(w, refused)])
            lasting = [w for w in found if (w.kind, w.id) not in written.done]
            self._record(scope, [d for w in lasting for d in w.differences(policy[w.kind])])
        real = [w for w in found if written.done.get((w.kind, w.id)) is not Outcome.IGNORED]
        return Report(
            scope=scope,
            dry_run=dry_run,
            complete=not entries.failures,
            failures=entries.failures,
            differences=tuple(d for what in real for d in what.differences(policy[what.kind])),
            written=written.written,
            deleted=written.deleted,
            refused_deletes=refused,
            refused_writes=entries.refused | written.refused,
            sizes={name: len(entities) for name, entities in known.items()},
            seconds=time.monotonic() - began,
        )

    def _source(self, scope: str) -> str:
        return f"{self.name}/{scope}"

    @property
    def _followed(self) -> tuple[str, ...]:
        """How the ids begin that belong to followed regions, of any engine."""
        return tuple(map(prefix_of, self.context.store.sites.sources))

    def _known(self, scope: str, kind: Kind, view: View) -> dict[str, Entity]:
        """Return the declared entities of the model in the scope, by id; without those of followed regions."""
        followed = self._followed
        found = (each for each in self.known(scope, kind.name, view) if not each.id.startswith(followed))
        return {each.id: each for each in found if kind.is_declared(each)}

    def _read(
        self, scope: str, known: Mapping[str, Mapping[str, Entity]], since: int, percent: float, deadline: float
    ) -> Entries:
        """List the scope, and ask for what the listing lacks, unless the delete guard refuses so many deletions.

        :raises ReconcileError: the scope cannot be listed.
        """
        entries = Entries(
            self._listed,
            f"the listing of {self._source(scope)}",
            find=lambda cls, entity_id: self.find_live(scope, cls, entity_id, deadline),
            may_find=self.finds,
            followed=self._followed,
            deadline=deadline,
        )
        entries.read(self.list_live(scope, deadline))
        for name, entities in known.items():
            missing = [i for i, each in entities.items() if i not in entries.live[name] and each.seq <= since]
            if self._listed[name].has_anchor and not refuses_deletes(len(missing), len(entities), percent):
                entries.confirm(name, missing)
        return entries

    def _compare(
        self, name: str, known: dict[str, Entity], live: Mapping[str, LiveEntity], view: View, since: int
    ) -> Iterator[Divergence]:
        """Yield the differences of one kind that the listing may judge.

        :param known: the model's entities in the scope.
        """
        listed = self._listed[name]
        others: list[Entity] = []
        if type(self).known is not ListingReconciler.known and (unknown := live.keys() - known.keys()):
            # An entity may be in the model, but not in the scope. It is updated, and not created.
            others = [e for e in view.all(name) if e.id in unknown and listed.kind.is_declared(e)]
        for what in compare(name, [*known.values(), *others], live):
            is_whole = what.model is None or what.live is None
            if (what.model is None or what.model.seq <= since) and (listed.has_anchor or not is_whole):
                yield what

    def _record(self, scope: str, drifts: Sequence[FieldDifference]) -> None:
        """Store what stays different. A drift that is found again has its first time."""
        context = self.context
        replace_drifts(
            context.store.database, drifts, source=self._source(scope), kinds=list(self._listed), now=context.now()
        )


def _listed_kind(context: Context, cls: type[Entity], fields: Sequence[str]) -> ListedFields:
    """:raises TypeError: the class is no kind of this process, or a field cannot be listed."""
    kind = kind_of(cls)
    if context.store.kinds.get(kind.name) is not kind:
        raise TypeError(
            f"the kind {kind.name} is not installed: no entry point in watcher_sync.entities names its class"
        )
    for name in fields:
        if name not in kind.fields or not kind.fields[name].facet:
            listed = ", ".join(n for n, field in kind.fields.items() if field.facet)
            raise TypeError(f"{kind.name} has no field {name!r} that can be listed; it has {listed}")
    of_facets = {facet: [n for n in names if n in fields] for facet, names in kind.facet_fields.items()}
    return ListedFields(kind, {facet: names for facet, names in of_facets.items() if names})


class _ListingWriter:
    """Writes what one listing found. For one thread."""

    def __init__(self, reconciler: ListingReconciler, source: str, since: int) -> None:
        """:param source: recorded as the source of the changes.

        :param since: the journal's seq before the listing.
        """
        self._kinds = reconciler._listed
        self._context = reconciler.context
        self._source = source
        self._since = since
        self._own: set[int] = set()
        """The seqs of what this writer wrote."""
        self.written = self.deleted = 0
        self.refused: dict[str, str] = {}
        """``<kind> <id>`` -> why it is not written."""
        self.done: dict[tuple[str, str], Outcome] = {}
        """(kind, id) -> APPLIED, or IGNORED if another writer wrote it after the listing began."""

    def write(self, found: Sequence[Divergence]) -> None:
        """Write differences: first what exists, then what is gone.

        :raises DatabaseUnavailable: the database is unavailable; a part is written.
        """
        ordered = [what for what in found if not what.gone] + [what for what in reversed(found) if what.gone]
        for what, outcome in write_portions(
            self._context.writes, ordered, self._make, self._refuse, committed=self._remember
        ):
            if outcome is Outcome.APPLIED:
                self.written += not what.gone
                self.deleted += what.gone
            elif outcome is Outcome.STALE:
                self._refuse(what, _DELETED_FOR_GOOD)
            if outcome in (Outcome.APPLIED, Outcome.IGNORED):
                self.done[what.kind, what.id] = outcome

    def _remember(self, staged: Sequence[Staged]) -> None:
        self._own.update(one.seq for one in staged)

    def _refuse(self, what: Divergence, why: object) -> None:
        self.refused[f"{what.kind} {what.id}"] = str(why)

    def _make(self, cycle: DirectCommitCycle, portion: Sequence[Divergence]) -> list[Write]:
        prefetch(cycle, portion)
        head = cycle.generation
        return [
            (
                self._event(what),
                functools.partial(self._changes, what, cycle.model.tombstone(what.kind, what.id), head),
            )
            for what in portion
        ]

    def _event(self, what: Divergence) -> Event:
        return Event(
            id=f"{what.id}/reconciled", type=f"{what.kind}.reconciled", source=self._source, subject=what.id,
            time=self._context.now(),
        )  # fmt: skip

    def _changes(self, what: Divergence, tombstone: Tombstone | None, head: int, view: View) -> Iterator[Change]:
        """Yield the change of an entity inside the transaction, if the listing may judge it.

        :param tombstone: of the entity, before the transaction.
        :param head: the journal's seq before the transaction. Newer entities are of the transaction itself.
        """
        listed, now = self._kinds[what.kind], view.get(what.kind, what.id)
        kind = listed.kind
        if what.model is None:
            if now is not None and (kind.is_declared(now) or (now.seq <= head and self._is_foreign(now.seq))):
                return
            if tombstone is not None and self._is_foreign(tombstone.seq):
                return
            buried = tombstone.versions if tombstone is not None else ()
            versions = now.versions if now is not None else buried or kind.no_versions
        elif now is None or not listed.is_unwritten(what.model, now):
            return
        else:
            versions = now.versions
        if what.live is None:
            if now is not None and what.model is not None and now.versions == what.model.versions:
                yield Delete(kind.name, what.id, absent(after(versions[kind.anchor_position])))
            return
        names = what.live.fields.keys() if what.model is None else set(what.fields)
        facets = {
            facet: {name: what.live.fields[name] for name in fields if name in names}
            for facet, fields in listed.facets.items()
            if what.model is None or not names.isdisjoint(fields)
        }
        newer = {facet: after(versions[kind.facet_position[facet]]) for facet in facets}
        yield Upsert(kind.name, what.id, max(newer.values()), facets, newer)

    def _is_foreign(self, seq: int) -> bool:
        """Whether another writer wrote it after the listing began."""
        return seq > self._since and seq not in self._own


def _waits(what: Divergence, refused: Mapping[str, int]) -> bool:
    """Whether the operator decides first: the delete guard refuses deletions of the kind, so new ones wait, too."""
    return what.kind in refused and (what.model is None or what.live is None)
