# SPDX-License-Identifier: Apache-2.0
"""The Python client of the REST API, and the command line that uses it.

::

    from watcher_sync.client import connect

    client = connect("http://127.0.0.1:8790")
    for instance in client.entities("instance", filters={"host": "compute-1"}, fields=("id", "name")):
        print(instance["id"], instance["name"])

The client imports nothing of the engine, the model or the storage. It needs keystoneauth1 and msgspec only;
``log`` also needs nats-py, and ``watch`` grpcio, protobuf and urllib3.

``changes``         ``Client.events``: an endless iterator that reads the journal by long polls and retries
``client``          ``Client``: every operation of the API as a method, and ``connect``
``commands``        The commands of ``watcher-sync`` and of the OpenStackClient plugin
``entities``        The part of ``Client`` that reads entities of every kind, as they are or were
``errors``          ``ClientError`` and its subclasses, one for each HTTP status
``export_formats``  The columns of a list in a file, and its entries as JSON lines, CSV and Parquet
``filters``         The filters of a list, as people write them
``log``             ``LogReader``: the client of the log on NATS JetStream
``models``          The documents of the API as typed structs
``operations``      ``Operation``: an operation lease as a ``with`` block, with a heartbeat thread
``osc``             The plugin of OpenStackClient
``paging``          Reads documents and the pages of lists
``screen``          What ``top`` and the demo draw, for every size of the terminal
``sdk``             The service of openstacksdk, ``conn.watcher_sync``
``shell``           The application ``watcher-sync``: the server, the credentials, the exit status
``stats``           ``ModelStats``: entities of each kind, the event rate, the latest changes
``subscriptions``   The parts of ``Client`` for who receives changes: subscriptions, and watch topics
``terminal``        Text of others for people: no control character reaches a terminal
``transport``       One HTTP request and its answer, or one of the errors
``vnf_instances``   The part of ``Client`` that writes VNF instances and their operations
``watch``           ``WatchManager``: the client of watch streams
"""

from watcher_sync.client.changes import ChangeStream
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
    BegunOperation,
    Change,
    Delivery,
    Difference,
    Drift,
    Entity,
    EntityGraph,
    EntityImpact,
    EntityPage,
    EntityRelation,
    EventPage,
    Moment,
    Quarantined,
    QuarantinedWhole,
    RelatedEntity,
    Replayed,
    SearchResult,
    SearchResults,
    Source,
    Stored,
    Subscription,
    SyncDifference,
    SyncedPod,
    SyncReport,
    VnfOperation,
    WatchTopic,
)
from watcher_sync.client.operations import Lease, Operation

__all__ = [
    "Client",
    "connect",
    "BegunOperation",
    "Change",
    "ChangeStream",
    "Delivery",
    "Difference",
    "Drift",
    "Entity",
    "EntityGraph",
    "EntityImpact",
    "EntityPage",
    "EntityRelation",
    "EventPage",
    "Lease",
    "Moment",
    "Operation",
    "Quarantined",
    "QuarantinedWhole",
    "RelatedEntity",
    "Replayed",
    "SearchResult",
    "SearchResults",
    "Source",
    "Stored",
    "Subscription",
    "SyncDifference",
    "SyncedPod",
    "SyncReport",
    "VnfOperation",
    "WatchTopic",
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
