# SPDX-License-Identifier: Apache-2.0
"""What a reconciler is.

A reconciler compares the model with one kind of live system. Its scopes are what can fail separately, such as
clusters: each is compared on its own, in a thread of its own, when it is due. The reconciler knows nothing of
due times, retries and breakers, and the periodic work knows nothing of Kubernetes.

What a reconciler promises:

* A listing that failed, or that is not whole, says nothing of what is gone.
* Where more than ``[reconcile] max_delete_percent`` of a scope's entities of a kind would be deleted, none of that
  kind is, unless the caller allows it; the report says how many were held back. What is new of that kind waits, too.
* What is written goes through the commit cycle, so whatever was told by a notification meanwhile wins by its version.
* With ``dry_run`` nothing is written at all, drifts included.
* It has timeouts of its own and ends by the deadline. One that does not is left behind: no thread can be ended
  from outside.
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
    """What one comparison of one scope found and did."""

    scope: str
    dry_run: bool
    complete: bool
    """Whether everything could be listed, and nothing was held back for want of it."""
    differences: tuple[Difference, ...] = ()
    written: int = 0
    """Entities created or updated; with dry_run always 0."""
    deleted: int = 0
    braked: Mapping[str, int] = {}
    """kind -> deletions that the brake held back."""
    requests: int = 0
    """Calls of the live system's API."""
    seconds: float = 0.0
    failures: Mapping[str, str] = {}
    """Resource -> why it could not be listed."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconciler works with. Everything in it may be used by any thread."""

    store: Store
    writes: DirectWriter
    """The commit cycle: one short transaction a write."""
    dispatcher: Dispatcher
    """What the handlers make of the events that a listing amounts to."""
    operations: Operations
    """The leases of ``vnf_instance``."""
    view: Callable[[], View]
    """One consistent state of the model as of now."""
    notifications: Notifications | None = None
    """Where listeners are told of syncs and drifts; None: nobody is."""


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
        """What there is to compare now, such as the names of clusters. Asked several times a second: no I/O."""

    @abc.abstractmethod
    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one scope, and write what is to be healed.

        :param dry_run: write nothing, and tell what would be written.
        :param allow_deletes: without the brake.
        :param deadline: ``time.monotonic()`` by which it is to end.
        :raises ReconcileError: when nothing could be compared.
        """
