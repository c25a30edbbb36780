# SPDX-License-Identifier: Apache-2.0
"""Index the fields by which lists are filtered, together with the id.

An index over the field alone has the rows of a common value in no order, so a page sorted all of them.

Revision: 0016, after 0015.
"""

from alembic import op

revision = "0016"
down_revision = "0015"

_REPLACED = {
    "compute_nodes": ("availability_zone",),
    "instances": ("host", "project_id"),
    "pods": ("cluster", "namespace", "node", "project_id"),
    "providers": ("name",),
    "service_type_instances": ("project_id", "provider_name", "service_type"),
    "vnf_instances": ("cluster", "namespace", "project_id", "vnfd_id"),
    "workloads": ("cluster", "namespace", "project_id"),
}
_NEW = {
    "aggregates": ("availability_zone", "name"),
    "compute_nodes": ("hypervisor_hostname", "state", "status"),
    "instances": ("name",),
    "pods": ("name", "phase", "ready"),
    "providers": ("state",),
    "service_type_instances": ("instance_name", "status"),
    "vnf_instances": ("name", "state"),
    "workloads": ("name",),
}
_NOT_TEXT = {("pods", "ready")}


def upgrade() -> None:
    for table, names in _REPLACED.items():
        for name in names:
            op.drop_index(f"ix_{table}_{name}", table_name=table)
    for table in sorted({*_REPLACED, *_NEW}):
        for name in (*_REPLACED.get(table, ()), *_NEW.get(table, ())):
            operators = {} if (table, name) in _NOT_TEXT else {name: "varchar_pattern_ops"}
            op.create_index(f"ix_{table}_{name}", table, [name, "id"], postgresql_ops=operators)
