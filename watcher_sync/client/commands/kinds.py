# SPDX-License-Identifier: Apache-2.0
"""The kinds that have nouns of their own: ``server list``, ``host list``, ``pod show`` and so on.

The commands are those of ``entity``, with options for the fields that people filter by. The entry points name them. A
kind of a plugin has ``entity list`` and ``entity show``.
"""

from __future__ import annotations

from watcher_sync.client.commands.arguments import ALL_PROJECTS, AS_OF, FIELDS, filter_options
from watcher_sync.client.commands.entity import NAME_OR_ID, EntityListCommand, EntityShow


class KindCommands:
    """The commands of one kind.

    :ivar list: the class of ``list``.
    :ivar show: the class of ``show``.
    """

    def __init__(self, kind: str, what: str, *filters: str, is_scoped: bool = False) -> None:
        """:param what: what the commands list, for their help, such as ``instances``.

        :param filters: the fields that options filter by.
        :param is_scoped: whether its entities belong to projects.
        """
        scope = (ALL_PROJECTS,) if is_scoped else ()
        options = (*scope, AS_OF, FIELDS, *filter_options(*filters))
        listed = {"__doc__": f"List {what}.", "kind": kind, "arguments": options}
        shown = {"__doc__": f"Show one of the {what}.", "kind": kind, "arguments": (NAME_OR_ID, FIELDS, AS_OF)}
        self.list: type[EntityListCommand] = type("KindList", (EntityListCommand,), listed)
        self.show: type[EntityShow] = type("KindShow", (EntityShow,), shown)


_OF_PROJECT = ("name", "project_id")
_IN_CLUSTER = ("cluster", "namespace", *_OF_PROJECT)

AGGREGATE = KindCommands("aggregate", "host aggregates", "name", "availability_zone")
CLUSTER = KindCommands("cluster", "Kubernetes clusters", "state")
COMPUTE_NODE = KindCommands(
    "compute_node", "compute hosts", "hypervisor_hostname", "availability_zone", "state", "status"
)
CUSTOM_OBJECT = KindCommands(
    "custom_object", "custom objects of clusters", *_IN_CLUSTER, "kind", "state", is_scoped=True
)
INSTANCE = KindCommands("instance", "instances (servers)", *_OF_PROJECT, "host", "state", is_scoped=True)
POD = KindCommands("pod", "pods", *_IN_CLUSTER, "node", "phase", is_scoped=True)
PROVIDER = KindCommands("provider", "providers of a DCM control plane", "name", "state")
WORKLOAD = KindCommands("workload", "workloads of clusters", *_IN_CLUSTER, is_scoped=True)
