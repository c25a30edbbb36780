# SPDX-License-Identifier: Apache-2.0
"""A fake Kubernetes API server for tests, benchmarks and the demo; kubectl can talk to it.

It serves lists with pages, and watches with bookmarks and a limited history. It implements optimistic concurrency,
owners and graceful deletion, and it injects faults on request. :class:`KubernetesServer` is the entry;
``python -m watcher_sync.testing.kubernetes`` runs it alone.

``api``         The state of the server: objects, history, faults and counters
``builders``    Builders of objects as people write them, and of pods as a cluster makes them
``cluster``     The controllers and kubelets behind the API, and the accidents that a test can cause
``errors``      The errors of the API as Status objects
``faults``      The faults of an API server and of its watches
``http``        HTTP/1.1: paths, bodies, chunks, compression, faults
``patches``     The formats of a patch
``population``  Creates many pods at once
``reads``       Lists: the version of a collection, and its pages
``requests``    Counts the requests of clients
``resources``   The resource types, and their discovery documents
``routing``     Parses a request line
``selectors``   Label and field selectors
``server``      The server as tests use it
``store``       The objects and the history of their changes
``views``       The representations of objects: complete, metadata only, or table
``watching``    Watches: the lines of one stream
``workloads``   The workload controllers
``writes``      Writes: conflicts, generations, subresources and deletions
"""

from watcher_sync.testing.http.faults import Answer, Cut, Delay, Fault, Hang
from watcher_sync.testing.kubernetes.errors import ApiError
from watcher_sync.testing.kubernetes.faults import (
    Action,
    Break,
    Close,
    ErrorEvent,
    RawLine,
    Request,
    Silence,
    error_event,
    forbidden,
    gateway_page,
    gone,
    internal_error,
    too_many_requests,
    unauthorized,
    version_too_large,
)
from watcher_sync.testing.kubernetes.server import KubernetesServer

__all__ = [
    "KubernetesServer",
    "ApiError",
    "Fault",
    "Request",
    "Action",
    "Answer",
    "Delay",
    "Hang",
    "Cut",
    "Break",
    "Close",
    "Silence",
    "ErrorEvent",
    "RawLine",
    "too_many_requests",
    "internal_error",
    "unauthorized",
    "forbidden",
    "gone",
    "gateway_page",
    "version_too_large",
    "error_event",
]
