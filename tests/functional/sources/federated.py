# SPDX-License-Identifier: Apache-2.0
"""Installations that follow each other: each has a database, and an engine, an API and an outlet as processes."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any, Final

from tests.functional.engine.driving import EngineProcess, Installation, wait_until
from tests.services.servers import free_port
from watcher_sync.storage.source_status import SourceRow, list_sources
from watcher_sync.storage.store import Store

KINDS: Final = ("aggregate", "compute_node", "instance")
_REFERENCES: Final = ("host", "source_host", "hosts")
PARTS: Final = {"engine": "watcher-sync-engine", "api": "watcher-sync-api", "outlet": "watcher-sync-outlet"}


class Member:
    """One installation of a federation."""

    def __init__(self, name: str, site: Installation) -> None:
        self.name = name
        self.site = site
        self.api_port, self.stream_port = free_port(), free_port()
        self.processes: dict[str, EngineProcess] = {}
        self._sources: list[str] = []
        self._numbers = itertools.count(1)
        site.options |= {
            "api.auth_strategy": "noauth",
            "api.port": self.api_port,
            "outlet_watch.auth_strategy": "noauth",
            "outlet_watch.port": self.stream_port,
            "monitoring.status_interval": 0.5,
        }
        site.upgrade()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    def follow(self, source: str, other: Member, **options: object) -> None:
        """Add a source that follows another member; before the start."""
        values = {
            "driver": "watch", "endpoint": other.url, "address": f"127.0.0.1:{other.stream_port}", "backoff_max": 0.5,
        } | options  # fmt: skip
        self.add_source(source, {f"source_{source}.{option}": value for option, value in values.items()})

    def add_source(self, source: str, options: Mapping[str, object]) -> None:
        """Add a source; before the start."""
        self._sources.append(source)
        self.site.options |= {**options, "engine.enabled_sources": ", ".join(self._sources)}

    def start(self, *parts: str) -> None:
        """Start these processes, or all of them; returns at once."""
        config = self.site.folder / "member.conf"
        self.site.write_config(config, {})
        for part in parts or PARTS:
            log = self.site.folder / f"{part}-{next(self._numbers)}.log"
            self.processes[part] = EngineProcess(self.site.command(PARTS[part], config), log, self.site.environment)
            self.site.engines.append(self.processes[part])

    def kill(self, *parts: str) -> None:
        """SIGKILL to these processes, or to all of them."""
        for part in parts or list(self.processes):
            self.processes.pop(part).kill()

    def answers(self) -> bool:
        """Whether the API answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/v1", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_until_serving(self) -> None:
        wait_until(self.answers, 60, f"the API of {self.name}")

    def source_rows(self) -> dict[str, SourceRow]:
        """Source -> its state in the database."""
        return {row.source: row for row in list_sources(self.site.store.database)}


def dumped(store: Store, kind: str, site: str | None = None) -> list[dict[str, Any]]:
    """The entities of a kind, without signs of life.

    Versions are left out: a change of versions alone is in the journal, but not in the stream.

    :param site: prefix ids and references, as an installation does that follows this one; None: they stay.
    """
    documents = store.load().snapshot().dump(kind)
    return [{**(each if site is None else _prefixed(each, site)), "last_heard": None} for each in documents]


def is_union(whole: Member, parts: Mapping[str, Member], kinds: Collection[str] = KINDS) -> bool:
    """Whether a member has all entities of those that it follows, and no others.

    :param parts: site -> the member.
    """
    for kind in kinds:
        union = [document for site, part in parts.items() for document in dumped(part.site.store, kind, site)]
        if sorted(union, key=lambda each: each["id"]) != dumped(whole.site.store, kind):
            return False
    return True


def unreal_deletions(whole: Member, parts: Mapping[str, Member]) -> list[tuple[str, str]]:
    """What a member deleted, and the one that it follows never did.

    An entity that others refer to is not deleted but ``gone``, in the one or in the other.
    """
    real = {
        (row.kind, f"{site}:{row.entity_id}")
        for site, part in parts.items()
        for row in part.site.rows()
        if row.change == "deleted" or row.delta.get("gone", (None, None))[1]
    }
    found = [(row.kind, row.entity_id) for row in whole.site.rows() if row.change == "deleted"]
    return [key for key in found if key not in real]


def _prefixed(document: dict[str, Any], site: str) -> dict[str, Any]:
    found = {**document, "id": f"{site}:{document['id']}"}
    for name in _REFERENCES:
        value = found.get(name)
        if isinstance(value, list):
            found[name] = [f"{site}:{each}" for each in value]
        elif value is not None:
            found[name] = f"{site}:{value}"
    return found
