# SPDX-License-Identifier: Apache-2.0
"""The contract of a reconciler, its context and its report.

A reconciler compares the model with one kind of live system. Each of its scopes, such as a cluster, fails separately.
The scheduler runs each due scope in its own thread. It handles retries and breakers.

Guaranteed:

* A failed or incomplete listing deletes nothing.
* The delete guard refuses all deletions of a kind above ``[reconcile] max_delete_percent``. New entities of the kind
  wait, too.
* Every write goes through the commit cycle. So a notification that was committed meanwhile wins by its version.
* A dry run writes nothing, drifts included.
* A run ends by its deadline. The scheduler abandons a run that does not, because no thread can be ended from outside.
"""

from __future__ import annotations

import abc
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
from oslo_config import cfg

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.doubts import Doubts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.model.changes import Change, Outcome
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.storage.drifts import FieldDifference as FieldDifference
from watcher_sync.storage.writing.store import Store

T = TypeVar("T")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one comparison of one scope."""

    scope: str
    dry_run: bool
    complete: bool
    """Whether everything could be listed."""
    differences: tuple[FieldDifference, ...] = ()
    written: int = 0
    """Entities created or updated; with dry_run always 0."""
    deleted: int = 0
    refused_deletes: Mapping[str, int] = msgspec.field(default_factory=dict, name="braked")
    """kind -> deletions that the delete guard refused; ``braked`` in JSON."""
    refused_writes: Mapping[str, str] = {}
    """``<kind> <id>`` -> why the model or the database refuses to store what was found of it."""
    sizes: Mapping[str, int] = {}
    """kind -> entities of the scope that the model had before the comparison, for the compared kinds."""
    requests: int = 0
    """Calls of the live system's API."""
    seconds: float = 0.0
    failures: Mapping[str, str] = {}
    """Resource -> why it could not be listed."""
    unknown: Mapping[str, str] = {}
    """What the live system does not show, although the lists are complete -> why."""

    @property
    def problem(self) -> str:
        """Why the model does not have everything that the live system has; empty if it has."""
        failed = "; ".join(f"{what}: {why}" for what, why in sorted(self.failures.items()))
        refused = ", ".join(f"{self.refused_share(kind)} {kind}" for kind in sorted(self.refused_deletes))
        return failed or (f"the delete guard refuses deletions: {refused}" if refused else "")

    def refused_share(self, kind: str) -> str:
        """Return the refused deletions of a kind as text, such as ``3 of 5``; without ``sizes`` only their number."""
        count, size = self.refused_deletes[kind], self.sizes.get(kind)
        return str(count) if size is None else f"{count} of {size}"


def utc_now() -> datetime.datetime:
    """Return the time of this machine, aware UTC."""
    return datetime.datetime.now(datetime.UTC)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The services that a reconciler uses. Any thread may use them.

    A plugin uses :attr:`view`, :attr:`now` and :meth:`write`. The other members are internal, and may change.
    """

    view: Callable[[], View]
    """One consistent state of the model as of now."""
    now: Callable[[], datetime.datetime] = utc_now
    """The clock by which a listing is newer or older than an event, aware UTC."""
    store: Store
    """Internal: the tables of the database."""
    writes: DirectWriter
    """Internal: the commit cycle, one short transaction a write."""
    dispatcher: Dispatcher
    """Internal: finds the handlers that turn listed objects into changes."""
    operations: Operations
    """Internal: the leases of ``vnf_instance``."""
    notifications: Notifications
    """Internal: sends notifications to the message bus, if the operator wants any."""
    doubts: Doubts = msgspec.field(default_factory=Doubts)
    """Internal: the entities that handlers marked as doubtful; empty in a process without an engine."""
    source_scopes: Callable[[], Mapping[str, Collection[EntityScope]]] = dict
    """Internal: returns source of this process -> the entities that exist only through it."""
    _shared: dict[Any, Any] = msgspec.field(default_factory=dict)

    def write(self, event: Event, changes: Callable[[View], Iterable[Change]]) -> Outcome:
        """Commit changes in a transaction of their own, with the commit cycle.

        :param event: recorded as their cause.
        :param changes: makes them from the state inside the transaction. It compares that with the state before its
            listing, and makes none if another writer has written the entity since.
        :returns: APPLIED, STALE or DUPLICATE by the versions; IGNORED if there were no changes.
        :raises InvalidEvent: a change violates the declaration of its kind; nothing is written.
        :raises DatabaseUnavailable: the database is unavailable; nothing is written.
        """
        with self.writes.begin() as cycle:
            return cycle.write_all([(event, changes)])[0]

    def shared(self, make: Callable[[Context], T]) -> T:
        """Internal: return what reconcilers and background services of this process share.

        :param make: makes it at the first call with the same function or class.
        """
        if make not in self._shared:
            self._shared.setdefault(make, make(self))
        made: T = self._shared[make]
        return made


class Reconciler(abc.ABC):
    """Compares the model with the live systems of one kind. Several threads call it, each for another scope."""

    name: ClassVar[str]
    """The same as that of its entry point."""
    options: ClassVar[list[cfg.Opt]] = []
    """Registered in ``[reconciler_<name>]`` before an instance is made."""

    def __init__(self, conf: cfg.ConfigOpts, context: Context) -> None:
        """Connects to nothing.

        :raises ConfigError: when the configuration cannot work.
        """
        self.conf = conf
        self.context = context

    @abc.abstractmethod
    def scopes(self) -> Sequence[str]:
        """Return what there is to compare now, such as the names of clusters.

        The scheduler calls it several times a second, so it does no I/O.
        """

    def interval(self, scope: str) -> float | None:
        """Return the seconds between two runs of a scope; None: ``[reconcile] interval``.

        The scheduler calls it several times a second, so it does no I/O.
        """
        return None

    def timeout(self, scope: str) -> float | None:
        """Return the seconds after which a run of a scope counts as failed; None: ``[reconcile] timeout``."""
        return None

    @property
    def has_inventory(self) -> bool:
        """Whether it compares live systems as a whole, so that an engine is not ready before the first time."""
        return False

    def inventory_problem(self) -> str | None:
        """Return why the model does not have everything that the live systems have; empty if it has.

        None: the reconciler does not say so. Until it has, the engine is not ready.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        return None

    def wants_run(self, scope: str) -> bool:
        """Return whether a run is to begin at once, such as after a file changed.

        The scheduler calls it several times a second, so it does almost no I/O.
        """
        return False

    def reload(self) -> None:
        """Apply changed mutable options and files, after a SIGHUP. Returns at once and does not raise."""
        return None

    @abc.abstractmethod
    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one scope, and repair the model.

        :param dry_run: write nothing, and report what differs.
        :param allow_deletes: without the delete guard.
        :param deadline: ``time.monotonic()`` by which it is to end.
        :raises ReconcileError: when nothing could be compared.
        """
