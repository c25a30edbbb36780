# SPDX-License-Identifier: Apache-2.0
"""Compares the answers of Nova's API with the model. Nothing is written here.

A list that failed is compared as far as it came, and nothing counts as gone. A missing server is asked for by its id.
Only the answer 404 confirms that it is gone. Missing hosts and aggregates are gone if a second list lacks them, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec import UNSET
from oslo_config import cfg

from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.extensions.openstack.kinds import Aggregate as KnownAggregate
from watcher_sync.extensions.openstack.kinds import ComputeNode, Instance
from watcher_sync.extensions.openstack.reconcile.comparison import AGGREGATE, INSTANCE, NODE, Base, NovaComparison
from watcher_sync.extensions.openstack.reconcile.listing import NovaApi
from watcher_sync.extensions.openstack.reconcile.live import (
    Facets,
    Flavors,
    aggregate_facets,
    instance_facets,
    node_facets,
    resize_facet,
    zone_of,
)
from watcher_sync.extensions.openstack.reconcile.payloads import (
    AggregatePayload,
    Hypervisor,
    ServerPayload,
    ServicePayload,
)
from watcher_sync.extensions.openstack.reconcile.selection import Selection
from watcher_sync.extensions.openstack.reconcile.sight import (
    RULE_OF_ADMINS,
    RULE_OF_FILTERS,
    RULE_OF_HOSTS,
    RULE_OF_SOURCES,
    RULE_OF_SPECS,
    ServerUnseen,
    Sight,
)
from watcher_sync.extensions.openstack.reconcile.writer import NovaDivergence
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.model import Snapshot

_MAX_CONFIRMED: Final = 1000
"""Servers that one run asks for because a list lacks them."""
_MAX_SHOWN: Final = 10
"""Hosts that a text names."""
_RESIZED: Final = "resized"
_IN_RESIZE: Final = "resize"
"""How the task states begin during which Nova moves a server between two hosts."""

T = TypeVar("T")


class CloudComparer:
    """Compares one cloud in one run. For one thread.

    :param base: takes the state of the model.
    :param max_delete_percent: of the entities of one kind that may be gone at once.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, api: NovaApi, base: Callable[[], Base], *, max_delete_percent: float
    ) -> None:
        self._conf = conf
        self._max_percent = max_delete_percent
        self._api = api
        self._base = base
        self._result = NovaComparison()
        self._flavors: Flavors | None = None
        self._groups: Mapping[str, str] | None = None
        self._sources: Mapping[str, str | None] | None = None
        self._sources_wanted = True
        self._selection: Selection | None = None
        self._lists_hypervisors = False
        """Whether they are to be listed for a server on a host of unknown type."""

    # The whole cloud

    def compare(self) -> NovaComparison:
        """Compare everything.

        :raises ReconcileError: nothing could be listed.
        """
        result = self._result
        self.compare_hosts()
        self._list_shared()
        result.sizes[INSTANCE] = 0
        self._compare_servers()
        if not result.complete and "servers" in result.failures and not result.looked_at:
            raise ReconcileError(f"Nova cannot be listed: {result.failures['servers']}")
        return result

    def _check_sight(self) -> None:
        """Note what the account does not see."""
        sight = self._sight()
        if sight is None:
            return
        if not sight.has_filters:
            self._result.failures["soft-deleted servers"] = f"Nova drops the filter without the rule {RULE_OF_FILTERS}"
        if not sight.is_admin:
            self._result.unknown["server groups and private flavors of other projects"] = RULE_OF_ADMINS

    def compare_hosts(self) -> NovaComparison:
        """Compare all hosts and aggregates.

        :raises ReconcileError: the hosts that the options leave out are unknown.
        """
        hosts_base = self._base()
        services = self._listed("services", self._api.services)
        hypervisors = self._listed("hypervisors", self._api.hypervisors)
        aggregates_base = self._base()
        aggregates = self._listed("aggregates", self._api.aggregates)
        self._select(services, hypervisors, aggregates)
        if hypervisors is None or self._has_unreadable("hypervisor"):
            self._leave_out_unknown_types(services or ())
        if services is not None:
            self._compare_nodes(hosts_base, services, hypervisors, aggregates)
        if aggregates is not None:
            self._compare_aggregates(aggregates_base, aggregates)
        return self._result

    def _has_unreadable(self, kind: str) -> bool:
        return any(name == kind for name, _ in self._api.unreadable)

    def _is_absent(self, kind: str, entity_id: str) -> bool:
        """Whether what the lists lack is not among their unreadable entries."""
        return not self._api.unreadable.keys() & {(kind, entity_id), (kind, "")}

    def _leave_out_unknown_types(self, hosts: Iterable[str]) -> None:
        """Leave out the hosts that could be bare metal, and say so. An unreadable hypervisor is named anyhow."""
        selection = self._chosen()
        selection.ignore_unknown_types()
        why = self._result.failures.get("hypervisors")
        if why is not None and (unknown := selection.unknown_types(hosts)):
            left_out = f"{len(unknown)} hosts of unknown type are left out (ignore_ironic)"
            self._result.failures["hypervisors"] = f"{why}; {left_out}"

    def _compare_nodes(
        self,
        base: Base,
        services: Mapping[str, ServicePayload],
        hypervisors: Mapping[str, list[Hypervisor]] | None,
        aggregates: Mapping[str, AggregatePayload] | None,
    ) -> None:
        selection = self._chosen()
        result = self._result
        result.states_at = base.listed_at
        known = {node.id: node for node in _all(base.view, NODE, ComputeNode) if selection.has_host(node.id)}
        result.sizes[NODE] = len(known)
        missing = [node for host, node in known.items() if host not in services and node.registered]
        zones = self._own_zones(services, aggregates)
        stored = {host: node.service_zone for host, node in known.items()}
        new = [host for host, zone in zones.items() if selection.has_host(host) and stored.get(host, UNSET) != zone]
        again = self._listed("services", self._api.services) if new or missing else services
        # A host may have left its aggregate between the two lists.
        own = {host for host, zone in zones.items() if again and host in again and again[host].zone == zone}
        defaults = {zones[host] for host in own}
        default = next(iter(defaults)) if len(defaults) == 1 else None
        for host, service in services.items():
            if not selection.has_host(host):
                continue
            found = None if hypervisors is None else hypervisors.get(host, [])
            if what := base.diverging(NODE, host, node_facets(service, found, default, in_zone=host not in own)):
                result.found.append(what)
            if not service.forced_down:
                result.states[host] = service.state == "up"
        self._note_several(hypervisors or {})
        if missing and again is not None:
            gone = [node for node in missing if node.id not in again and self._is_absent(NODE, node.id)]
            self._is_refused(NODE, len(gone))
            result.found += [base.gone(node, NODE) for node in gone]
        if "services" not in result.failures and hypervisors is not None:
            result.complete.add(NODE)

    def _own_zones(
        self, services: Mapping[str, ServicePayload], aggregates: Mapping[str, AggregatePayload] | None
    ) -> Mapping[str, str | None]:
        """The zones of the hosts that no aggregate puts into one; empty if some aggregate is unknown."""
        if aggregates is None or self._has_unreadable(AGGREGATE):
            return {}
        zoned = {host for one in aggregates.values() if zone_of(one) for host in one.hosts}
        return {host: service.zone for host, service in services.items() if host not in zoned}

    def _note_several(self, hypervisors: Mapping[str, list[Hypervisor]]) -> None:
        """Note the hosts with several hypervisors, because a host of the model has the name and uuid of one."""
        hosts = [host for host, found in hypervisors.items() if len(found) > 1 and self._chosen().has_host(host)]
        if hosts:
            what = f"name, uuid and type of the hypervisors of {len(hosts)} hosts that have several"
            self._result.unknown[what] = ", ".join(sorted(hosts)[:_MAX_SHOWN])

    def _compare_aggregates(self, base: Base, aggregates: Mapping[str, AggregatePayload]) -> None:
        selection = self._chosen()
        result = self._result
        for one_id, one in aggregates.items():
            if selection.has_aggregate(one.name) and (what := base.diverging(AGGREGATE, one_id, aggregate_facets(one))):
                result.found.append(what)
        known = [one for one in _all(base.view, AGGREGATE, KnownAggregate) if selection.has_aggregate(one.name)]
        result.sizes[AGGREGATE] = len(known)
        missing = [one for one in known if one.id not in aggregates]
        if missing and (again := self._listed("aggregates", self._api.aggregates)) is not None:
            gone = [one for one in missing if one.id not in again and self._is_absent(AGGREGATE, one.id)]
            self._is_refused(AGGREGATE, len(gone))
            result.found += [base.gone(one, AGGREGATE) for one in gone]
        if "aggregates" not in result.failures:
            result.complete.add(AGGREGATE)

    def _compare_servers(self) -> None:
        result, first = self._result, self._base()
        selection = self._chosen()
        known = [one for one in _all(first.view, INSTANCE, Instance) if selection.has_instance(one)]
        result.sizes[INSTANCE] = len(known)  # the delete guard asks for it while the pages are compared
        if not self._compare_pages(None):
            return
        if self._is_absent(INSTANCE, ""):
            self._confirm([one for one in known if one.id not in result.looked_at], first)
            self._guard_servers()
        self._check_sight()
        if "servers" not in result.failures:
            result.complete.add(INSTANCE)

    # Parts of it

    def compare_changes(self, since: datetime.datetime) -> NovaComparison:
        """Compare the servers that Nova wrote since a time.

        :raises ReconcileError: they could not be listed.
        """
        base = self._base()
        if self._selection is None:
            self._select_known(base)
        self._list_shared()
        self._result.sizes[INSTANCE] = base.view.count(INSTANCE)
        if not self._compare_pages(since):
            raise ReconcileError(f"Nova's changes cannot be listed: {self._result.failures['servers']}")
        return self._result

    def compare_some(self, server_ids: Iterable[str]) -> NovaComparison:
        """Compare single servers."""
        base, result = self._base(), self._result
        if self._selection is None:
            self._select_known(base)
        result.sizes[INSTANCE] = base.view.count(INSTANCE)
        before = len(result.found)
        try:
            for server_id in server_ids:
                self._compare_one(server_id)
            self._guard_servers()
        except CloudError as exc:
            result.failures["servers"] = str(exc)
            result.found[before:] = [what for what in result.found[before:] if not what.is_gone]
        return result

    def _compare_pages(self, since: datetime.datetime | None) -> bool:
        """Compare the servers page by page; returns whether the listing came to its end.

        :param since: only the servers that Nova wrote since then, deleted ones included; None: all that exist.
        """
        result = self._result
        deleted: list[Instance] = []
        found: dict[str, NovaDivergence | None] = {}
        twice: dict[str, None] = {}
        try:
            base = self._base()
            for page in self._api.server_pages(since):
                for server in page:
                    if not self._is_compared(server, base, deleted):
                        continue
                    what = self._divergence(server, base)
                    if server.id in found and not _is_alike(found[server.id], what):
                        twice[server.id] = None
                    found[server.id] = what
                base = self._base()
            self._compare_again([*twice, *self._api.refused_markers], found)
        except CloudError as exc:
            result.failures["servers"] = str(exc)
            return False
        finally:
            result.found += [what for server_id, what in found.items() if what and server_id not in twice]
        self._note_unreadable()
        self._confirm(deleted, base)
        self._guard_servers()
        return True

    def _compare_again(self, server_ids: list[str], found: dict[str, NovaDivergence | None]) -> None:
        """Ask for servers that the pages show with different contents, or that may be gone.

        :param found: what the pages show; without these servers afterwards.
        """
        for server_id in server_ids:
            found.pop(server_id, None)
        for server_id in server_ids[:_MAX_CONFIRMED]:
            self._compare_one(server_id)
        if len(server_ids) > _MAX_CONFIRMED:
            self._result.failures["servers"] = f"the list has {len(server_ids)} servers twice, with different contents"

    def _note_unreadable(self) -> None:
        """Have unreadable servers stay as they are. One without an id could be any server that is missing."""
        for kind, server_id in self._api.unreadable:
            if kind == INSTANCE and server_id:
                self._result.looked_at.add(server_id)
        if not self._is_absent(INSTANCE, ""):
            self._result.failures["servers"] = "a server has no id that can be read"

    def _is_compared(self, server: ServerPayload, base: Base, deleted: list[Instance]) -> bool:
        """Whether a listed server is to be compared. A known one that Nova deleted for good goes to ``deleted``."""
        if server.is_deleted:
            model = base.view.get(INSTANCE, server.id)
            if isinstance(model, Instance) and self._chosen().has_instance(model):
                deleted.append(model)
            return False
        self._result.looked_at.add(server.id)
        if not server.is_known:
            self._result.failures["cells"] = "a cell is down: Nova does not know the state of its servers"
            return False
        return self._has_server(server)

    def _has_server(self, server: ServerPayload) -> bool:
        """Whether a listed server is compared.

        The model does not have the hosts that are left out as bare metal. So the hypervisors are listed if the model
        does not have the type of the server's host. If they cannot be listed, such a server waits for a complete run,
        which reports that.
        """
        selection = self._chosen()
        if self._lists_hypervisors and selection.has_server(server) and not selection.has_type_of(server.host):
            self._lists_hypervisors = False
            try:
                selection.ignore_ironic(self._api.hypervisors())
            except CloudError:
                selection.ignore_unknown_types()
        return selection.has_server(server)

    def _divergence(self, server: ServerPayload, base: Base) -> NovaDivergence | None:
        known = base.view.get(INSTANCE, server.id)
        model = known if isinstance(known, Instance) else None
        if server.host is UNSET:
            self._result.unknown["hosts of servers"] = RULE_OF_HOSTS
        if server.hides_extra_specs:
            self._result.unknown["extra specs of servers"] = RULE_OF_SPECS
        facets = instance_facets(server, model, self._flavors, self._groups_for(server, model))
        return base.diverging(INSTANCE, server.id, facets | self._resize(server, model))

    def _compare_one(self, server_id: str) -> bool:
        """Ask for one server, and compare it. Returns whether it exists, as far as the account sees it."""
        base = self._base()
        try:
            server = self._api.server(server_id)
        except ServerUnseen as exc:
            self._result.failures["missing servers"] = str(exc)
            return False
        if server is not None and not server.is_deleted:
            if self._flavors is None:
                self._list_shared()
            if self._is_compared(server, base, []) and (what := self._divergence(server, base)):
                self._result.found.append(what)
            return True
        if (INSTANCE, server_id) in self._api.unreadable:
            self._result.looked_at.add(server_id)
            return True
        model = base.view.get(INSTANCE, server_id)
        self._result.looked_at.add(server_id)
        if isinstance(model, Instance) and self._chosen().has_instance(model):
            self._result.found.append(base.gone(model, INSTANCE))
        return False

    def _confirm(self, missing: list[Instance], base: Base) -> None:
        """Ask for each server that a list lacks. Those that do not exist are gone.

        If more are missing than the delete guard allows, nothing is asked: they are reported, and refused.
        """
        result = self._result
        if self._is_refused(INSTANCE, len(missing)):
            result.found += [base.gone(one, INSTANCE) for one in missing]
            return
        present = 0
        try:
            for one in missing[:_MAX_CONFIRMED]:
                present += self._compare_one(one.id)
        except CloudError as exc:
            result.failures["servers"] = f"missing servers cannot be confirmed: {exc}"
            return
        if len(missing) > _MAX_CONFIRMED:
            result.failures["servers"] = f"{len(missing)} servers are missing; {_MAX_CONFIRMED} were asked for"
        elif present:
            result.failures["servers"] = f"the list lacks {present} servers that exist; a cell may be down"

    def _is_refused(self, kind: str, gone: int) -> bool:
        """Whether the delete guard refuses so many deletions, which is noted."""
        is_refused = refuses_deletes(gone, self._result.sizes[kind], self._max_percent)
        if is_refused:
            self._result.refused[kind] = gone
        return is_refused

    def _guard_servers(self) -> None:
        """Have the delete guard count all servers that are gone, however that was found."""
        if gone := sum(what.is_gone and what.kind == INSTANCE for what in self._result.found):
            self._is_refused(INSTANCE, gone)

    # What servers need

    def _resize(self, server: ServerPayload, model: Instance | None) -> Facets:
        """Return the facet with the host that holds a server's allocation until its resize is confirmed."""
        if server.state != _RESIZED:
            task = server.task_state if isinstance(server.task_state, str) else ""
            in_resize = task.startswith(_IN_RESIZE)
            return {} if in_resize or (model is None or model.source_host is None) else resize_facet(None)
        if isinstance(server.task_state, str):  # it is being confirmed or reverted
            return {}
        if self._sources_wanted:
            self._sources_wanted = False
            self._sources = self._listed("migrations", self._api.sources_of_resizes)
        if self._sources is None or server.id not in self._sources:
            return {}
        source = self._sources[server.id]
        if source is None:
            self._result.unknown["source hosts of resizes"] = RULE_OF_SOURCES
            return {}
        return resize_facet(source)

    def _groups_for(self, server: ServerPayload, model: Instance | None) -> Mapping[str, str] | None:
        """Return server -> server group; None if it is unknown whether this server has left its group."""
        groups = self._groups
        if groups is None or server.id in groups or model is None or model.server_group is None:
            return groups
        sight = self._sight()
        return groups if sight is not None and sight.is_admin else None

    def _sight(self) -> Sight | None:
        """Return what the account sees; None if that cannot be asked, which is noted."""
        return self._listed("account", lambda: self._api.sight)

    def _list_shared(self) -> None:
        """List what servers share: flavors and server groups."""
        found = self._listed("flavors", self._api.flavors)
        self._flavors = None if found is None else Flavors(found)
        groups = self._listed("server groups", self._api.groups_of_servers)
        self._groups = None if self._has_unreadable("server_group") else groups

    def _select(
        self,
        services: Mapping[str, ServicePayload] | None,
        hypervisors: Mapping[str, list[Hypervisor]] | None,
        aggregates: Mapping[str, AggregatePayload] | None,
    ) -> None:
        if aggregates is None and self._conf.reconcile_nova.ignore_aggregates:
            why = self._result.failures.get("aggregates", "")
            raise ReconcileError(f"the hosts that ignore_aggregates leaves out are unknown: {why}")
        nodes = _all(self._base().view, NODE, ComputeNode)
        self._selection = Selection(
            self._conf, services=services, hypervisors=hypervisors, aggregates=aggregates, nodes=nodes
        )

    def _select_known(self, base: Base) -> None:
        """Select by the hosts of the model."""
        options = self._conf.reconcile_nova
        aggregates = self._listed("aggregates", self._api.aggregates) if options.ignore_aggregates else None
        self._select(None, None, aggregates)
        self._lists_hypervisors = bool(options.ignore_ironic)

    def _chosen(self) -> Selection:
        assert self._selection is not None
        return self._selection

    def _listed(self, what: str, list_: Callable[[], T]) -> T | None:
        """Return a list; None if it failed, which is noted."""
        try:
            return list_()
        except CloudError as exc:
            self._result.failures[what] = str(exc)
            return None


def _is_alike(one: NovaDivergence | None, other: NovaDivergence | None) -> bool:
    """Whether two comparisons of a server have the same result."""
    return (one and one.facets) == (other and other.facets)


def _all(view: Snapshot, kind: str, cls: type[T]) -> list[T]:
    return [entity for entity in view.all(kind) if isinstance(entity, cls)]
