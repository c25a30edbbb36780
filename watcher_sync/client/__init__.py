# SPDX-License-Identifier: Apache-2.0
"""The Python client of the REST API, and the commands that are made of it.

::

    from watcher_sync.client import connect

    client = connect("http://127.0.0.1:8775")
    for instance in client.entities("instance", filters={"host": "compute-1"}, fields=("id", "name")):
        print(instance["id"], instance["name"])

It speaks HTTP to the API and shares no code with it: nothing here imports the engine, the model or the storage, so
it works wherever keystoneauth1 and msgspec are.
"""

from watcher_sync.client.client import Client, connect
from watcher_sync.client.errors import (
    BadRequest,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    InvalidId,
    NotConfigured,
    NotFound,
    OperationLost,
    PreconditionFailed,
    ProblemError,
    ServerFailed,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnknownKind,
    Unprocessable,
    Unreachable,
)
from watcher_sync.client.models import (
    Change,
    Drift,
    Entity,
    EntityPage,
    EventPage,
    Quarantined,
    QuarantinedWhole,
    Replayed,
    Source,
    Stored,
    SyncDifference,
    SyncedPod,
    SyncReport,
    VnfOperation,
)
from watcher_sync.client.operations import Lease, Operation

__all__ = [
    "Client",
    "connect",
    "Change",
    "Drift",
    "Entity",
    "EntityPage",
    "EventPage",
    "Lease",
    "Operation",
    "Quarantined",
    "QuarantinedWhole",
    "Replayed",
    "Source",
    "Stored",
    "SyncDifference",
    "SyncedPod",
    "SyncReport",
    "VnfOperation",
    "UnexpectedResponse",
    "BadRequest",
    "ClientError",
    "Conflict",
    "Forbidden",
    "Gone",
    "NotConfigured",
    "NotFound",
    "OperationLost",
    "PreconditionFailed",
    "ProblemError",
    "ServerFailed",
    "InvalidId",
    "Unauthorized",
    "Unavailable",
    "UnknownKind",
    "Unprocessable",
    "Unreachable",
]
