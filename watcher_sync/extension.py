# SPDX-License-Identifier: Apache-2.0
"""What an extension brings to the processes of watcher_sync, beside the plugins of the other entry point groups.

An extension is a class that an entry point in the group ``watcher_sync.extensions`` names. This package's own features
beyond its core are extensions, and a package of a stranger brings its own in the same way. Each method is a door: the
core calls it where it needs it, and the default brings nothing.

Every process imports an extension. A method therefore imports what it needs when it is called: an engine
loads no web framework.

An extension that cannot be loaded, or one of whose doors raises, is logged and left out; the others work on. A
:class:`~watcher_sync.exceptions.ConfigError` ends the process.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.exceptions import ConfigError, described, interrupts
from watcher_sync.plugins import load_plugins

if TYPE_CHECKING:
    import argparse

    import sqlalchemy as sa
    from oslo_upgradecheck.upgradecheck import Result
    from prometheus_client.registry import Collector

    from watcher_sync.api.edge.feed import Feed
    from watcher_sync.api.http.openapi import Route
    from watcher_sync.api.http.problems import Problem
    from watcher_sync.api.service import Service
    from watcher_sync.commit.direct import DirectWriter
    from watcher_sync.conf.findings import NamedFile
    from watcher_sync.dispatch import Dispatcher
    from watcher_sync.engine.engine import Engine
    from watcher_sync.engine.services import BackgroundService, EvaluationService
    from watcher_sync.reconcile.base import Context
    from watcher_sync.storage.database.pages import DecodedPage
    from watcher_sync.storage.schema.tables import Tables
    from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

GROUP: Final = "watcher_sync.extensions"
"""The entry point group."""

T = TypeVar("T")

Wsgi = Callable[..., Iterable[bytes]]
"""A WSGI application."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """What the resources of one API process share."""

    service: Service
    """The configuration, the kinds and the database, for reading."""
    writer: DirectWriter
    """Commits what a request writes."""
    dispatcher: Dispatcher
    feed: Feed
    """Wakes the streams of this process when the journal grows."""


class ComputedFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that a kind has in answers only, computed on each read. No table, journal row or event has them."""

    schemas: Mapping[str, dict[str, Any]]
    """Field -> its JSON Schema."""
    columns: Sequence[str]
    """The fields of the entity from which they are computed."""
    kinds: Sequence[str]
    """The other kinds from which they are computed. If one is not installed, there are no such fields."""
    add: Callable[[sa.Connection, Tables, Collection[dict[str, Any]]], None]
    """Adds all of them to rows of entities, which have their id and these columns."""
    tag: Callable[[Mapping[str, Any]], str]
    """What they add to the ETag of a row: another text for other values."""
    resources: Sequence[str] = ()
    """Each NAME that has fields ``used_NAME`` and ``free_NAME``: the topology shows what is used of a place."""


class DriftCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of drifts beside the live systems: an entity deviates from something in the model."""

    name: str
    """The member ``cause`` of these drifts."""
    parameter: str
    """The boolean parameter with which a request asks for them. They precede the differences from live systems."""
    kind: str
    """The kind of the entities. A marker of a page begins with it."""
    fields: frozenset[str]
    """The fields that a caller needs to see."""
    page: Callable[[sa.Connection, Tables, str, int, str | None, str | None], DecodedPage[dict[str, Any]]]
    """Documents of drifts, by id of the entity: after an id, so many, of one source, of one project (None: of all)."""
    entities: str
    """What these entities are, in words, for the API's document."""
    members: Mapping[str, str]
    """Member of a drift -> what it has in these drifts, for the API's document."""


class ManageCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command of ``watcher-sync-manage``."""

    name: str
    work: str
    """The function that runs it, as ``package.module:function``.

    It gets the configuration, whose ``command`` has the arguments, and returns None or an exit status.
    """
    text: str
    """The help."""
    add_arguments: Callable[[argparse.ArgumentParser], object] = lambda _parser: None


class PluginGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of entry points whose plugins have a section of the configuration each."""

    prefix: str
    """What the name of a section begins with, such as ``source`` of ``[source_nova]``."""
    options: Sequence[cfg.Opt] = ()
    """The options common to all sections, beside those of the plugin's class."""
    enabled: tuple[str, str] | None = None
    """Section and option that name the instances; each section then names its plugin with ``driver``.

    None: each plugin has one section, which has its name.
    """


class OutletWorker(Protocol):
    """The work of one process of ``watcher-sync-outlet``; its method ``reload``, if any, is called after a SIGHUP."""

    def start(self) -> None:
        """Begin to work; returns at once."""

    def stop(self, timeout: float) -> None:
        """Return when all has ended, or after so many seconds."""

    def is_alive(self) -> bool:
        """Whether the process works: the answer of ``/healthz``. Any thread may call it."""

    def collector(self) -> Collector:
        """The metrics on the monitoring port."""


class OutletProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of worker process of ``watcher-sync-outlet``."""

    name: str
    """The name of the process for operators, such as ``watcher-sync-outlet-log``."""
    enabled_by: str
    """The option that enables it, such as ``[outlets] enabled``."""
    workers: int
    """The number of processes; 0: it is not enabled."""
    check: Callable[[cfg.ConfigOpts], None]
    """Raises :class:`~watcher_sync.exceptions.ConfigError` if an option cannot work."""
    assemble: Callable[[cfg.ConfigOpts], OutletWorker]
    """Makes the work, after the fork."""
    section: str
    """Its option ``monitoring_port`` is the port of ``/healthz`` and ``/metrics`` of the first worker; 0: none."""
    ports: Mapping[str, int] = {}
    """Option -> another port on which it listens."""


class Examined(msgspec.Struct):
    """What ``watcher-sync-status upgrade check`` examines."""

    conf: cfg.ConfigOpts
    timeout: float
    """Seconds within which another system has to answer."""
    store: Store | None = None
    """The database; None: its own check found it unusable, or has not run."""


class Extension:
    """Base of all extensions; see the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        """Sections of the configuration and their options.

        A section with the options :data:`watcher_sync.conf.cloud_account.OPTS` has an account of Keystone.
        """
        return ()

    def plugin_groups(self) -> Mapping[str, PluginGroup]:
        """Groups of entry points -> the sections of their plugins."""
        return {}

    def routes(self, api: Api) -> Iterable[Route]:
        """URI templates and resources of the REST API.

        The operations of a resource declare their rules of the policy. The route of a kind's list or item replaces that
        of the core. With a template that ends in ``/*``, a function of Falcon's sinks answers all other paths below.
        """
        return ()

    def computed_fields(self) -> Mapping[str, ComputedFields]:
        """Kind -> fields that its entities have in answers of the REST API only."""
        return {}

    def drift_causes(self) -> Iterable[DriftCause]:
        """Causes of drifts beside the live systems."""
        return ()

    def problems(self) -> Mapping[type[Exception], Callable[[Any], Problem]]:
        """Exception that a resource may raise -> what makes the problem with which the API answers it."""
        return {}

    def authentication(self, conf: cfg.ConfigOpts) -> Iterable[Callable[[Wsgi, Wsgi], Wsgi]]:
        """What wraps the REST API to accept credentials that the core does not know.

        A function gets the application without authentication, and the one with it. It passes a request that it has
        authenticated to the first, and every other to the second. The first finds the caller in
        :data:`~watcher_sync.api.http.request_context.CLAIMS`. The function removes the headers of an identity, because
        a client may have forged them.
        """
        return ()

    def evaluators(self, conf: cfg.ConfigOpts) -> Iterable[EvaluationService]:
        """What evaluates the entities that a batch concerns, within its commit; only one extension may have it.

        :raises ConfigError: the configuration cannot work.
        """
        return ()

    def engine_services(
        self, conf: cfg.ConfigOpts, context: Callable[[Engine], Context]
    ) -> Iterable[Callable[[Engine], BackgroundService]]:
        """Makers of background services, which run while their engine leads.

        :param context: what the reconcilers of an engine share.
        :raises ConfigError: the configuration cannot work.
        """
        return ()

    def outlet_processes(self, conf: cfg.ConfigOpts) -> Iterable[OutletProcess]:
        """Kinds of worker processes of ``watcher-sync-outlet``, those that are not enabled included.

        :raises ConfigError: the configuration cannot work.
        """
        return ()

    def insecure_access(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """Findings about settings that let others do or read more than they should, one line each."""
        return ()

    def insecure_transports(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """Findings about connections to other machines without TLS or verification, one line each."""
        return ()

    def named_files(self, conf: cfg.ConfigOpts) -> Iterable[NamedFile]:
        """Files that options name, and that other users must not read or change."""
        return ()

    def upgrade_checks(self, examined: Examined) -> Iterable[tuple[str, Callable[[], Result]]]:
        """Titles and functions of checks for ``watcher-sync-status upgrade check``."""
        return ()

    def commands(self) -> Iterable[ManageCommand]:
        """Commands of ``watcher-sync-manage``."""
        return ()


failures: dict[str, str] = {}
"""Name of an extension that this process left out -> why, at the last time."""


@functools.cache
def load_extensions() -> Mapping[str, Extension]:
    """Name of the entry point -> extension, by name. A process loads them once."""
    found: dict[str, Extension] = {}

    def failed(name: str, why: BaseException | str) -> None:
        failures[name] = why if isinstance(why, str) else f"cannot be loaded: {described(why)}"
        LOG.error("The extension %s %s", name, failures[name])

    for plugin in sorted(load_plugins(GROUP, failed), key=lambda each: each.name):
        if not (inspect.isclass(plugin.plugin) and issubclass(plugin.plugin, Extension)):
            failed(plugin.name, f"is no subclass of {__name__}.Extension")
        elif plugin.name in found:
            failed(plugin.name, f"is installed twice; that of {plugin.module} is left out")
        else:
            found[plugin.name] = plugin.plugin()
    return found


def gather(door: Callable[[Extension], Iterable[T]], extensions: Mapping[str, Extension] | None = None) -> list[T]:
    """All that a door of the extensions brings, in the order of their names.

    :param door: calls one method of an extension.
    :param extensions: by name; None: the installed ones.
    :raises ConfigError: the configuration cannot work.
    """
    found: list[T] = []
    for name, extension in (load_extensions() if extensions is None else extensions).items():
        try:
            found.extend(list(door(extension)))
        except ConfigError:
            raise
        except BaseException as exc:
            if interrupts(exc):
                raise
            failures[name] = f"fails: {described(exc)}"
            LOG.error("The extension %s fails and is left out here", name, exc_info=exc)
    return found
