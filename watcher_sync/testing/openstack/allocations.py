# SPDX-License-Identifier: Apache-2.0
"""Which consumer holds how much of which host, as Placement stores it.

The allocations follow from the servers and the open migrations, by Nova's rules. A server that is shelved or
soft-deleted holds its host. Until a resize or migration is over, the migration holds the source, and the server
holds the destination. The caller holds the inventory's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watcher_sync.testing.openstack.records import OPEN_MIGRATIONS, Migration, Server, resources

Amounts = Mapping[str, int]


class Allocations:
    """host name -> consumer uuid -> resource class -> amount, and the generation of each provider."""

    def __init__(self) -> None:
        self._by_host: dict[str, dict[str, Amounts]] = {}
        self._by_consumer: dict[str, dict[str, Amounts]] = {}
        self._generations: dict[str, int] = {}
        self._migrations: dict[str, dict[str, Migration]] = {}

    def add_provider(self, host: str) -> None:
        self._generations.setdefault(host, 1)

    def remove_provider(self, host: str) -> None:
        self._generations.pop(host, None)

    def changed(self, host: str) -> None:
        """The inventory of the provider changed."""
        self._generations[host] = self._generations.get(host, 0) + 1

    def generation(self, host: str) -> int:
        return self._generations.get(host, 0)

    def consumers(self, host: str) -> Mapping[str, Amounts]:
        return self._by_host.get(host, {})

    def hosts_of(self, consumer: str) -> Mapping[str, Amounts]:
        """host name -> amounts."""
        return self._by_consumer.get(consumer, {})

    def used(self, host: str) -> dict[str, int]:
        """resource class -> amount, of the classes that are used at all."""
        total: dict[str, int] = {}
        for amounts in self._by_host.get(host, {}).values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        return total

    def put_server(self, server: Server) -> None:
        """The server's record was written."""
        self._set(server.id, dict(self._holdings(server)))
        for migration in self._migrations.get(server.id, {}).values():
            self._set(migration.uuid, dict(_source(migration, server)))

    def put_migration(self, migration: Migration, server: Server) -> None:
        """The migration's record was written."""
        held = self._migrations.setdefault(server.id, {})
        held[migration.uuid] = migration
        if migration.status not in OPEN_MIGRATIONS and migration.migration_type != "evacuation":
            del held[migration.uuid]
            self._set(migration.uuid, {})
        self.put_server(server)

    def forget_server(self, server_id: str) -> None:
        self._set(server_id, {})
        for uuid in self._migrations.pop(server_id, {}):
            self._set(uuid, {})

    def _holdings(self, server: Server) -> Iterator[tuple[str, Amounts]]:
        if server.deleted or server.hidden:
            return
        on_image = server.image_id is not None
        host, flavor = server.host, server.flavor
        for migration in self._migrations.get(server.id, {}).values():
            if migration.migration_type == "evacuation":
                if migration.status in ("accepted", "done"):
                    yield migration.source, resources(migration.old_flavor, on_image=on_image)
            elif migration.destination is not None:
                host, flavor = migration.destination, migration.new_flavor
        if host is not None and server.state != "shelved_offloaded":
            yield host, resources(flavor, on_image=on_image)

    def _set(self, consumer: str, amounts: dict[str, Amounts]) -> None:
        old = self._by_consumer.get(consumer, {})
        if old == amounts:
            return
        for host in old.keys() | amounts.keys():
            now = amounts.get(host)
            if old.get(host) == now:
                continue
            if now is None:
                del self._by_host[host][consumer]
            else:
                self._by_host.setdefault(host, {})[consumer] = now
            if host in self._generations:
                self._generations[host] += 1
        if amounts:
            self._by_consumer[consumer] = amounts
        else:
            self._by_consumer.pop(consumer, None)


def _source(migration: Migration, server: Server) -> Iterator[tuple[str, Amounts]]:
    """What the migration itself holds."""
    if migration.migration_type != "evacuation" and not server.deleted:
        yield migration.source, resources(migration.old_flavor, on_image=server.image_id is not None)
