# SPDX-License-Identifier: Apache-2.0
"""The errors of watcher_sync, a sentence each.

A handler raises two of them: :class:`InvalidEvent` and :class:`NotYet`. A command prints the message as one line on
stderr. Its exit status is 2 for a :class:`ConfigError` and 1 for every other :class:`WatcherSyncError`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final


class WatcherSyncError(Exception):
    """The root of this project's errors; its message is fit to be shown to an operator."""


class ConfigError(WatcherSyncError):
    """The configuration cannot work; the message names the option or the file."""


class PluginConflict(ConfigError):
    """Two plugins claim the same thing; the message names both."""


class Interrupted(KeyboardInterrupt):
    """SIGINT has come. Our executables raise it, and no plugin does."""


def interrupts(error: BaseException) -> bool:
    """Return whether an exception from a plugin's code is a signal to the process, and not the plugin's own.

    Python runs signal handlers in the main thread only. So elsewhere no exception may end a supervised loop. Where a
    program other than ours sets no handler of SIGINT, Python raises a plain ``KeyboardInterrupt``.
    """
    if isinstance(error, Interrupted):
        return True
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def text_of(error: BaseException) -> str:
    """The message of an exception of a plugin, whose ``__str__`` may raise, too."""
    try:
        return str(error)
    except BaseException as exc:
        if interrupts(exc):
            raise
        return "(its text cannot be read)"


def described(error: BaseException) -> str:
    """The type and the message of an exception of a plugin."""
    return f"{type(error).__name__}: {text_of(error)}"


class NotDeclared(WatcherSyncError, KeyError):
    """The model has no such kind, or the kind has no such index; the message names those that exist."""

    __str__ = Exception.__str__  # that of KeyError adds quotation marks


class InvalidEvent(WatcherSyncError):
    """The event can never be applied; it goes to quarantine with this message as the reason."""


UNAUTHORISED: Final = "unauthorised"
"""How the reason of an event begins whose source may not say it."""


class UnauthorisedEvent(InvalidEvent):
    """Its source may not say this; the event goes to quarantine, and is counted as unauthorised."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{UNAUTHORISED}: {reason}")


class FollowedEntity(UnauthorisedEvent):
    """The entity belongs to a site that a source follows: only the site's region changes it.

    :ivar why: which entity, site and source, and what to do.
    """

    def __init__(self, kind: str, entity_id: str, site: str, sources: Iterable[str]) -> None:
        followers = ", ".join(sorted(sources))
        self.why = f"{kind} {entity_id} belongs to the site {site} (source {followers}); change it in its region"
        super().__init__(self.why)


class NotYet(WatcherSyncError):
    """The event is about an entity that does not exist yet; it is parked until the entity appears.

    :param kind: the kind of the missing entity.
    :param entity_id: its id.
    """

    def __init__(self, kind: str, entity_id: str) -> None:
        super().__init__(f"{kind} {entity_id} does not exist yet")
        self.kind = kind
        self.entity_id = entity_id


class StorageError(WatcherSyncError):
    """The root of the errors of a commit or a query."""


class HeadMoved(StorageError):
    """Another writer committed first: catch up with the journal and dispatch again."""


class LeaseLost(StorageError):
    """Another engine of the group holds the lease now: nothing may be written any more."""


class EntitiesLeased(StorageError):
    """Operations hold entities that the commit would write: dispatch again without them.

    :ivar leases: entity id -> its lease.
    """

    def __init__(self, leases: Mapping[str, Any]) -> None:
        super().__init__(f"operations hold {', '.join(sorted(leases))}")
        self.leases = leases


class DatabaseUnavailable(StorageError):
    """The database cannot be reached or does not answer now: keep everything and try again later."""


class TransactionConflict(DatabaseUnavailable):
    """The database ended a transaction because of another one: a deadlock, or a long wait for a lock.

    Nothing was written. The transaction may succeed at once if it runs again.
    """

    def __init__(self, message: str, *, waited: bool = False) -> None:
        """:param waited: whether it waited for a lock for the longest time that it may."""
        super().__init__(message)
        self.waited = waited


class StatementTooLong(DatabaseUnavailable):
    """The database ended a statement that ran for longer than this process waits for an answer."""


class RowRefused(StorageError):
    """The database refused a value of this commit and always will: find the culprit by bisecting."""


class SchemaMissing(StorageError):
    """The database has no schema, or one of another release."""


class JournalPurged(StorageError):
    """The journal does not have the rows after the asked seq: load the tables instead."""


class HistoryChanged(StorageError):
    """The database does not have the last commit that this process knows: it went back in time, or is another one.

    :ivar before: the position of that commit.
    :ivar after: the position of the database.
    """

    def __init__(self, before: Any, after: Any) -> None:
        super().__init__(f"the database is at {after}, without the commit at {before}")
        self.before = before
        self.after = after


class LeaseHeld(StorageError):
    """Another live engine of the same group leads, and this one is not configured to stand by."""


class SourceError(WatcherSyncError):
    """A source cannot run now; its supervisor starts it again."""


class ReplayRefused(WatcherSyncError):
    """Replayed events of the quarantine are refused again."""


class ReconcileError(WatcherSyncError):
    """Nothing of a scope could be compared with the live system; the message says why, in one sentence."""


class OperationRunning(WatcherSyncError):
    """Another operation holds the entity's lease now.

    :ivar lease: who, what, since when and until when.
    """

    def __init__(self, lease: Any) -> None:
        super().__init__(f"{lease.holder} holds it for {lease.operation} since {lease.since:%Y-%m-%dT%H:%M:%SZ}")
        self.lease = lease


class SyncHeldBack(WatcherSyncError):
    """A failed operation holds the sync of a VNF instance back, until it is resolved.

    :ivar operation: its id, operation, holder, state and ended_at.
    """

    def __init__(self, operation: Mapping[str, Any]) -> None:
        super().__init__(
            f"the operation {operation['operation']} ({operation['id']}) of {operation['holder']} ended "
            f"{operation['state']}, and the registration has sync_after_failure = false"
        )
        self.operation = operation


class StaleToken(WatcherSyncError):
    """The token's lease has ended, or another holder has taken it over: it allows no more writes.

    :ivar lease: the lease of the present holder; None: there is none.
    """

    def __init__(self, lease: Any) -> None:
        super().__init__("the operation's lease is not held any more")
        self.lease = lease


class NoSuchOperation(WatcherSyncError):
    """There is no such operation, or it belongs to another project."""


class ProofRefused(WatcherSyncError):
    """The caller does not hold the operation's lease: it belongs to another user, or the secret is wrong."""

    def __init__(self) -> None:
        super().__init__("the operation belongs to another caller, or its secret is wrong")


class QuotaReached(WatcherSyncError):
    """The project has as many things of a kind as it may have."""

    def __init__(self, project_id: str, quota: int, used: int, things: str) -> None:
        super().__init__(f"project {project_id} has {used} {things}, and {quota} are allowed")
        self.quota = quota
        self.used = used
