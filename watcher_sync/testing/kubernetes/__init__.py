# SPDX-License-Identifier: Apache-2.0
"""A fake Kubernetes API server, for tests, benchmarks and the demo; kubectl can talk to it.

It serves lists with pages, watches with bookmarks and a history that ends, optimistic concurrency,
owners, graceful deletion, and, by order, everything that goes wrong between a client and a cluster.
:class:`KubernetesServer` is where to begin; ``python -m watcher_sync.testing.kubernetes`` runs it by itself.
"""

from watcher_sync.testing.kubernetes.errors import ApiError
from watcher_sync.testing.kubernetes.faults import (
    Action,
    Answer,
    Break,
    Cut,
    Delay,
    ErrorEvent,
    Fault,
    Hang,
    RawLine,
    Request,
    Silence,
    error_event,
    forbidden,
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
    "Silence",
    "ErrorEvent",
    "RawLine",
    "too_many_requests",
    "internal_error",
    "unauthorized",
    "forbidden",
    "gone",
    "version_too_large",
    "error_event",
]
