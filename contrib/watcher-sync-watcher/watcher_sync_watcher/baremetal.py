# SPDX-License-Identifier: Apache-2.0
"""Makes Watcher's BaremetalModelRoot of nodes, as BareMetalModelBuilder is meant to make it of Ironic's answers.

BareMetalModelBuilder of Watcher 17 fails on every node. It lists nodes without the fields that it reads, takes
``extra`` for an object with attributes, and refuses a node without a maintenance reason.
"""

from __future__ import annotations

from oslo_log import log
from watcher.decision_engine.model import element, model_root

from watcher_sync_watcher.request import Document

LOG = log.getLogger(__name__)


def build(document: Document) -> model_root.BaremetalModelRoot:
    """The model of a document. A node whose power state or maintenance is unknown is left out and counted."""
    model = model_root.BaremetalModelRoot()
    unknown = []
    for entry in document["baremetal_nodes"]:
        if entry["power_state"] is None or entry["maintenance"] is None:
            unknown.append(entry["id"])
            continue
        compute_node_id = (entry["extra"] or {}).get("compute_node_id")
        node = element.IronicNode(
            uuid=entry["id"],
            power_state=entry["power_state"],
            maintenance=entry["maintenance"],
            maintenance_reason=entry["maintenance_reason"] or "",
            extra={} if compute_node_id is None else {"compute_node_id": compute_node_id},
        )
        model.add_node(node)
    if unknown:
        LOG.warning("%d nodes of unknown state are left out, among them %s", len(unknown), unknown[0])
    return model
