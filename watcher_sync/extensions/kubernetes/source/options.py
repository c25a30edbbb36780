# SPDX-License-Identifier: Apache-2.0
"""The options of the driver ``kubernetes``, and the settings that its reflectors get from them."""

from __future__ import annotations

import msgspec
from oslo_config import cfg

from watcher_sync.extensions.kubernetes.conf.custom_kinds import KINDS, RESOURCES
from watcher_sync.extensions.kubernetes.conf.namespaces import CLUSTER, NAMESPACE_PROJECTS

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "kubeconfig",
        help="""
File with the cluster's address and our credentials. Default: ``$KUBECONFIG``, else ``~/.kube/config``.

It is read again, with the files that it names, when one of them has changed and when the credentials are refused. So a
renewed one counts without a restart. While the changed files cannot be used, the former content remains in use.

Related options: ``context``, ``in_cluster``.
""",
    ),
    cfg.StrOpt("context", help="The context of the kubeconfig to use. Default: its current one."),
    cfg.BoolOpt(
        "in_cluster",
        default=False,
        help="Use the service account of the pod that the engine runs in, instead of a kubeconfig.",
    ),
    cfg.FloatOpt(
        "exec_timeout",
        default=30.0,
        min=0.1,
        advanced=True,
        help="""
Seconds that a credential plugin of the kubeconfig (``exec``) may take. After them it is killed with all its children.

The plugin runs without a terminal. Its credentials are used until they expire or are refused.

Related options: ``exec_environment``.
""",
    ),
    cfg.ListOpt(
        "exec_environment",
        default=[],
        advanced=True,
        help="""
Names of environment variables that a credential plugin gets, such as ``AWS_PROFILE, HTTPS_PROXY``.

It always gets ``PATH``, ``HOME``, ``KUBERNETES_EXEC_INFO`` and the variables that the kubeconfig sets, and no others.

Related options: ``exec_timeout``.
""",
    ),
    CLUSTER,
    cfg.ListOpt(
        "namespaces",
        default=[],
        help="""
Namespaces to follow. Default: all, which needs the right to list and watch in the whole cluster.

Each namespace is listed and watched by itself. What is in the model of one that is taken out of the list stays
as it was.
""",
    ),
    NAMESPACE_PROJECTS,
    cfg.StrOpt(
        "label_selector",
        default="",
        advanced=True,
        help="""
Follow only objects with these labels, such as ``app in (vnf, cnf),tier!=test``.

An object that ceases to match is deleted from the model, and made again when it matches again.
ReplicaSets need the labels, too, or the pods of Deployments are not traced to them.
""",
    ),
    RESOURCES,
    KINDS,
    cfg.BoolOpt(
        "watch",
        default=True,
        advanced=True,
        help="""
Follow the cluster's changes as they happen. Without it only the reconciliation reads the cluster, every
``[reconcile] interval`` seconds.
""",
    ),
    cfg.IntOpt(
        "page_size",
        default=500,
        min=1,
        max=10_000,
        advanced=True,
        help="""
Objects that one page of a listing asks for. A page of more than 32 MiB is asked for again with half the objects.
""",
    ),
    cfg.BoolOpt(
        "watch_list",
        default=True,
        advanced=True,
        help="""
Have the API server send lists as streams (WatchList), which spares its memory. One that refuses, or does not
understand, is listed in pages.

Related options: ``watch_list_timeout``, ``page_size``.
""",
    ),
    cfg.FloatOpt(
        "watch_list_timeout",
        default=10.0,
        min=0.1,
        advanced=True,
        help="""
Seconds of silence within the first list that is asked for as a stream, after which the server counts as one that
does not understand. So does one whose stream has not marked the end of the list after six times as many.
""",
    ),
    cfg.IntOpt(
        "watch_timeout",
        default=300,
        min=1,
        advanced=True,
        help="""
Seconds, and up to half as many more, after which the server is asked to end a watch; the next one goes on from
there.
""",
    ),
    cfg.FloatOpt(
        "connect_timeout", default=5.0, min=0.1, advanced=True, help="Seconds that a connection may take to be made."
    ),
    cfg.FloatOpt(
        "read_timeout",
        default=70.0,
        min=0.1,
        advanced=True,
        help="""
Seconds without a byte after which a connection counts as dead. API servers send a bookmark about once a minute
on a watch where nothing happens, so less than that only makes watches begin again and again.
""",
    ),
    cfg.FloatOpt(
        "probe_interval",
        default=8.0,
        min=0,
        advanced=True,
        help="""
Seconds without a byte from the cluster after which the API server is asked for its version; 0 never asks.

If two requests get no answer within 4 seconds each, the source is disconnected. So a frozen API server is noticed
within 20 seconds. A cluster where something happens is not asked.

Related options: ``read_timeout``.
""",
    ),
    cfg.FloatOpt(
        "backoff_max",
        default=30.0,
        min=0.1,
        advanced=True,
        help="Seconds between two attempts, at most, while the cluster fails; each resource waits by itself.",
    ),
]


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that all reflectors of a source share. Times are seconds."""

    source: str
    cluster: str
    label_selector: str = ""
    page_size: int = 500
    watch_list: bool = True
    watch_list_timeout: float = 10.0
    watch_timeout: int = 300
    backoff_max: float = 30.0
