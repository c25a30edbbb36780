# SPDX-License-Identifier: Apache-2.0
"""The contract of outlets: what a driver that publishes the journal on a log does, and what it gets.

An outlet is a class that an entry point in the group ``watcher_sync.outlets`` names. An instance of it is one
``[outlet_<name>]`` section, and publishes one partition. The framework reads the journal once for all outlets of a
process. It owns the cursor, the lease, back-off, filters and snapshots. One thread calls an instance.

A *snapshot* is a change ``snapshot_begin``, a change ``snapshot`` for each entity, and a change ``snapshot_end``, all
with one seq. What a reader knows of the partition and is not in the snapshot does not exist any more.
"""

from __future__ import annotations

import abc
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec
from oslo_config import cfg

from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extensions.log.formats import Encode, encoder_of

if TYPE_CHECKING:
    from watcher_sync.conf.findings import NamedFile

CREATED: Final = "created"
"""The entity was created."""
UPDATED: Final = "updated"
"""Fields of the entity changed."""
DELETED: Final = "deleted"
"""The entity was deleted."""
SNAPSHOT: Final = "snapshot"
"""An entity as it is at the seq of a snapshot."""
SNAPSHOT_BEGIN: Final = "snapshot_begin"
"""The whole model follows."""
SNAPSHOT_END: Final = "snapshot_end"
"""The model was whole; changes follow."""


class LogPosition(NamedTuple):
    """The last change that a log has of a partition."""

    epoch: str
    seq: int
    time: datetime.datetime | None = None
    """:attr:`LogChange.time` of that change, aware UTC, to the microsecond; None: the log does not tell it.

    A database that went back in time has another change at this seq, which was committed at another time.
    """
    is_in_snapshot: bool = False
    """Whether a snapshot has to follow: the log ends within one, or does not have its last message any more."""

    def __str__(self) -> str:
        return f"seq {self.seq} of epoch {self.epoch}"


LogPositions = Mapping[str, LogPosition]
"""Partition -> position. A partition of which a log has nothing is absent."""


class OutletError(WatcherSyncError):
    """The log did not take the changes, or cannot be reached: the framework closes the outlet, and opens it again."""


class LogRefused(OutletError):
    """The log is that of another installation."""


class ChangeTooLarge(OutletError):
    """The log refused a change because of its size: not every limit can be read when the outlet opens.

    The framework opens the outlet again, and lowers its :attr:`Outlet.limit`.
    """

    def __init__(self, message: str, limit: int | None = None) -> None:
        """:param limit: bytes of the largest body, if the refusal tells them."""
        super().__init__(message)
        self.limit = limit


class OutletDeposed(OutletError):
    """The log refused the changes because another publisher has published since :meth:`Outlet.open`."""


class LogChange(msgspec.Struct, frozen=True, kw_only=True):
    """What an outlet publishes: one change of an entity, or a part of a snapshot."""

    partition: str
    epoch: str
    seq: int
    """Of the journal row; in a snapshot, the seq whose model it is."""
    change: str
    """One of the constants of this module."""
    kind: str = ""
    """Empty at the begin and the end of a snapshot, as is what follows."""
    id: str = ""
    time: datetime.datetime
    """When the change was committed; in a snapshot, when the last change was that it contains. Aware UTC."""
    previous_seq: int | None = None
    """The seq of the journal row that wrote the entity before, also one that only moved versions. None: a creation, or
    unknown."""
    delta: Mapping[str, tuple[Any, Any]] = {}
    """Field -> (old, new) as in JSON, of the fields that changed."""
    before: Mapping[str, Any] | None = None
    """All public fields before the change, and the id; None: the entity did not exist, or it is a snapshot."""
    after: Mapping[str, Any] | None = None
    """All public fields after the change, and the id; None: the entity does not exist."""
    versions: Mapping[str, str] = {}
    """Facet -> version, after the change."""
    event_id: str = ""
    event_type: str = ""
    source: str = ""
    """The source whose event caused the change."""
    merged: int = 1
    """How many events this change sums up."""
    actor: Mapping[str, Any] | None = None
    project_id: str | None = None
    ends_commit: bool = True
    """Whether the next change belongs to another transaction of the journal."""
    omitted: tuple[str, ...] = ()
    """What is not in this change because the log takes no message of its size: ``old`` and ``new``, which are ``delta``
    and ``before``, and ``entity``, which is ``after``. Of an entity only the id remains, and its project."""
    body: bytes = b""
    """The change in the format of the outlet. The framework has encoded it (:attr:`Outlet.encode`)."""

    @property
    def key(self) -> str:
        """Of the entity: no kind has a slash, so two entities have two keys."""
        return f"{self.kind}/{self.id}"

    @property
    def position(self) -> LogPosition:
        """Of a log whose last change this is."""
        return LogPosition(self.epoch, self.seq, self.time)


class Outlet(abc.ABC):
    """Base of all outlet drivers.

    A constructor checks the options, and does no I/O.

    :cvar options: its options in ``[outlet_<name>]``, beside the common ones
        (:mod:`watcher_sync.extensions.log.options`).
    :cvar limit_names: what an operator raises so that the log takes larger messages.
    :ivar name: of the outlet in ``[outlets] enabled``.
    :ivar group: the values of ``[outlet_<name>]``.
    :ivar partition: the partition that this installation is.
    """

    options: ClassVar[list[cfg.Opt]] = []
    lacks_snapshot: bool = False
    """Set by :meth:`open`: a new reader needs a snapshot, although the log has a position."""
    limit_names: ClassVar[str] = "its limit of a message"

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: an option is wrong."""
        self.name = name
        self.group = conf[f"outlet_{name}"]
        self.partition: str = self.group.partition
        self.encode: Encode = encoder_of(self.group.format)
        """Makes the :attr:`LogChange.body`, in the configured format."""
        self.limit: int | None = None
        """Bytes of the largest body that the log takes, as :meth:`open` found it; None: it is unknown.

        The framework publishes a larger change without its values (:attr:`LogChange.omitted`).
        """

    @staticmethod
    def insecure_transports(conf: cfg.ConfigOpts, section: str) -> Iterable[str]:
        """Findings about a connection to another machine without TLS or verification, one line each.

        ``watcher-sync-status upgrade check`` shows them. The functions of :mod:`watcher_sync.conf.findings` help.

        :param section: of an outlet, whose options are registered.
        :raises ConfigError: an option is wrong, so there is no finding.
        """
        return ()

    @staticmethod
    def named_files(conf: cfg.ConfigOpts, section: str) -> Iterable[NamedFile]:
        """The files that options name, and that other users must not read or change, for the same check."""
        return ()

    @abc.abstractmethod
    def open(self, position: LogPositions) -> LogPositions:
        """Connect, and find out what the log has.

        :param position: what the framework knows to be durable; empty: nothing.
        :returns: the position of the last change that the log has, with its time. The framework continues after it if
            the journal has that change, and refuses an epoch that the database never had. Empty: the log has nothing,
            so the framework begins with a snapshot. An outlet whose log does not tell returns what it got.
        :raises OutletError: the log cannot be reached, or is not as configured.
        """

    @abc.abstractmethod
    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish changes in their order. It ends within a bounded time.

        :param changes: at least one, with a body; the last one ends a commit unless the commit is very large.
        :returns: what is durable now. In a snapshot, nothing is until its end.
        :raises OutletDeposed: another publisher has published.
        :raises ChangeTooLarge: the log refused one of them because of its size.
        :raises OutletError: it is not known how many are durable.
        """

    def verify(self) -> None:  # noqa: B027 - a log may have nothing to check
        """Check that the log still has what was published, for a reader that begins now, too.

        It is called after :meth:`open` and then every few seconds, never during :meth:`publish`. The framework opens
        the outlet again after an error. It ends within a bounded time.

        :raises OutletDeposed: another publisher has published.
        :raises OutletError: something is missing.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Disconnect. It does not raise, and may be called twice, also without :meth:`open`."""

    def probe(self) -> int | None:
        """Ask the log for what :meth:`open` would find as :attr:`limit`, without a change of anything.

        Another process may be publishing. An outlet that cannot ask returns None.

        :raises OutletError: the log cannot be reached.
        """
        return None
