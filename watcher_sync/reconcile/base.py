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
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.storage.drifts import Difference
from watcher_sync.storage.store import Store


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one comparison of one scope."""

    scope: str
    dry_run: bool
    complete: bool
    """Whether everything could be listed."""
    differences: tuple[Difference, ...] = ()
    written: int = 0
    """Entities created or updated; with dry_run always 0."""
    deleted: int = 0
    refused_deletes: Mapping[str, int] = msgspec.field(default_factory=dict, name="braked")
    """kind -> deletions that the delete guard refused; ``braked`` in JSON."""
    sizes: Mapping[str, int] = {}
    """kind -> entities of the scope that the model had before the comparison, for the compared kinds."""
    requests: int = 0
    """Calls of the live system's API."""
    seconds: float = 0.0
    failures: Mapping[str, str] = {}
    """Resource -> why it could not be listed."""

    def refused_share(self, kind: str) -> str:
        """Return the refused deletions of a kind as text, such as ``3 of 5``; without ``sizes`` only their number."""
        count, size = self.refused_deletes[kind], self.sizes.get(kind)
        return str(count) if size is None else f"{count} of {size}"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The services that a reconciler uses. Any thread may use them."""

    store: Store
    writes: DirectWriter
    """The commit cycle: one short transaction a write."""
    dispatcher: Dispatcher
    """Finds the handlers that turn listed objects into changes."""
    operations: Operations
    """The leases of ``vnf_instance``."""
    view: Callable[[], View]
    """One consistent state of the model as of now."""
    notifications: Notifications | None = None
    """Sends notifications of syncs and drifts; None: none are sent."""


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

    @abc.abstractmethod
    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one scope, and repair the model.

        :param dry_run: write nothing, and report what differs.
        :param allow_deletes: without the delete guard.
        :param deadline: ``time.monotonic()`` by which it is to end.
        :raises ReconcileError: when nothing could be compared.
        """
