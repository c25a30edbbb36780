# SPDX-License-Identifier: Apache-2.0
"""The service types of a DCM control plane, with their statuses and the publishers' aliases of these.

DCM's own are here. A package adds its own with an entry point in the group ``watcher_sync.service_types``, which
names a :class:`ServiceType`::

    [entry_points]
    watcher_sync.service_types =
        gpu = my_package:GPU

An entry with ``extends=True`` adds statuses, aliases and subjects to a service type of another package.

Guaranteed: the meaning of a status does not depend on the order of installation. When two packages declare the same
service type, or give one word two meanings, the process refuses to start and names both. A plugin that cannot be
loaded is reported, and the others work.

Statuses are compared in upper case. Immutable once made; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from watcher_sync.exceptions import PluginConflict, described
from watcher_sync.plugins import load_plugins

NAMESPACE: Final = "watcher_sync.service_types"

OURS: Final = "watcher_sync"
"""Who declares the service types of this module, in messages."""


class ServiceType(msgspec.Struct, frozen=True, kw_only=True):
    """The statuses of one service type."""

    name: str
    """As in the subject: ``vm`` of ``dcm.vm``."""
    statuses: frozenset[str] = frozenset()
    """In upper case."""
    aliases: Mapping[str, str] = {}
    """What publishers say, in upper case -> the status that it means."""
    subjects: frozenset[str] = frozenset()
    """Other service types under whose subjects its events come, too: ``container`` of ``dcm.container``."""
    extends: bool = False
    """Whether it only adds to a service type that is declared elsewhere."""


BUILTIN: Final = (
    ServiceType(
        name="vm",
        # All are DCM's but the last: KubeVirt's Unknown means none of the others, and stays.
        statuses=frozenset(
            ["PROVISIONING", "RUNNING", "STOPPED", "FAILED", "DELETED", "DELETING", "PAUSED", "STOPPING", "UNKNOWN"],
        ),
        aliases={
            # Phases of a virtual machine instance, and printable statuses of a virtual machine, of KubeVirt.
            "PENDING": "PROVISIONING",
            "SCHEDULING": "PROVISIONING",
            "SCHEDULED": "PROVISIONING",
            "SUCCEEDED": "STOPPED",
            "STARTING": "PROVISIONING",
            "TERMINATING": "DELETING",
        },
    ),
    ServiceType(
        name="container",
        statuses=frozenset(["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN", "DELETED"]),
    ),
    ServiceType(
        name="cluster",
        statuses=frozenset(
            [
                "PENDING",
                "PROVISIONING",
                "PROGRESSING",
                "ACTIVE",
                "READY",
                "DEGRADED",
                "UNAVAILABLE",
                "FAILED",
                "DELETING",
                "DELETED",
            ],
        ),
    ),
    ServiceType(
        name="storage",
        statuses=frozenset(["PROVISIONING", "RUNNING", "FAILED", "DELETING", "DELETED"]),
    ),
    ServiceType(
        name="network",
        statuses=frozenset(["PENDING", "READY", "DELETED"]),
    ),
    ServiceType(
        name="database",
        statuses=frozenset(["PENDING", "RUNNING", "FAILED", "UNKNOWN", "DELETING", "DELETED"]),
    ),
    ServiceType(
        # A provider of cost management publishes it; DCM itself declares no set of statuses for it.
        name="cost",
        statuses=frozenset(["PENDING", "PROVISIONING", "READY", "FAILED", "DELETING", "DELETED"]),
    ),
    ServiceType(
        name="three_tier_app_demo",
        statuses=frozenset(["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN", "DELETED"]),
        subjects=frozenset(["container"]),
    ),
)


class ServiceTypes:
    """All service types of this process: ours and the plugins'."""

    def __init__(self, declared: Iterable[tuple[str, ServiceType]] = ()) -> None:
        """:param declared: (who, service type) pairs beyond the built-in ones.

        :raises PluginConflict: when two disagree; names both.
        """
        every = [*((OURS, service) for service in BUILTIN), *declared]
        self._owner: dict[str, str] = {}
        self._words: dict[str, dict[str, tuple[str, str]]] = {}
        self._speakers: dict[str, list[str]] = {}
        """Service type -> it and those that declare its subject."""
        for who, service in every:
            if not service.extends:
                self._declare(who, service)
        for who, service in every:
            self._add_words(who, service)
        self._meaning = {n: {word: status for word, (status, _) in w.items()} for n, w in self._words.items()}

    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._meaning)

    def statuses(self, name: str) -> list[str]:
        """The statuses of a service type, sorted, aliases left out.

        :raises KeyError: when there is no such service type.
        """
        return sorted(set(self._meaning[name].values()))

    def meaning(self, subject: str, row_type: str | None, word: str) -> tuple[str | None, str | None]:
        """The service type that an event is of, and the status that its word means; None where none declares it.

        :param subject: the service type that the event's subject names.
        :param row_type: that of the instance; None: it is unknown.
        """
        speakers = self._speakers.get(subject)
        if not speakers:
            return None, None
        if row_type is not None:
            name = row_type if row_type in speakers else speakers[0]
            return name, self._meaning[name].get(word.upper())
        found = ((name, self._meaning[name].get(word.upper())) for name in speakers)
        return next((pair for pair in found if pair[1] is not None), (speakers[0], None))

    def _declare(self, who: str, service: ServiceType) -> None:
        taken = self._owner.get(service.name)
        if taken is not None:
            raise PluginConflict(f"{taken!r} and {who!r} both declare the service type {service.name!r}")
        self._owner[service.name] = who
        self._words[service.name] = {}
        self._speakers.setdefault(service.name, []).insert(0, service.name)

    def _add_words(self, who: str, service: ServiceType) -> None:
        words = self._words.get(service.name)
        if words is None:
            raise PluginConflict(f"{who!r} extends the service type {service.name!r}, which no package declares")
        for subject in sorted(service.subjects - {service.name}):
            speakers = self._speakers.setdefault(subject, [])
            if service.name not in speakers:
                speakers.append(service.name)
        for word, status in (*((s, s) for s in sorted(service.statuses)), *service.aliases.items()):
            status = status.upper()
            meant, by = words.setdefault(word.upper(), (status, who))
            if meant != status:
                raise PluginConflict(
                    f"{by!r} and {who!r} disagree on what {word!r} means for {service.name!r}: {meant} or {status}"
                )


def load_service_types() -> tuple[ServiceTypes, list[tuple[str, str]]]:
    """The built-in service types and those of the installed plugins.

    :returns: them, and (name, reason) of each plugin that could not be loaded.
    :raises PluginConflict: when two plugins disagree; names both.
    """
    failures: list[tuple[str, str]] = []

    def failed(name: str, exc: BaseException) -> None:
        failures.append((f"{NAMESPACE}: {name}", described(exc)))

    declared: list[tuple[str, ServiceType]] = []
    for extension in sorted(load_plugins(NAMESPACE, failed), key=lambda e: (e.name, e.module)):
        if isinstance(extension.plugin, ServiceType):
            declared.append((f"{extension.name} ({extension.module})", extension.plugin))
        else:
            failures.append((f"{NAMESPACE}: {extension.name}", f"{extension.plugin!r} is not a ServiceType"))
    return ServiceTypes(declared), failures
