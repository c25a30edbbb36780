# SPDX-License-Identifier: Apache-2.0
"""The namespaces of Kubernetes that belong to projects, as the options of the sources say.

The handler of Kubernetes writes the project of its namespace into each object. The API reads the same
options, and refuses VNF instances in the namespace of another project.
"""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from watcher_sync.conf import engine, opts
from watcher_sync.exceptions import ConfigError

CLUSTER = cfg.StrOpt(
    "cluster",
    max_length=255,
    help="""
Name of the cluster in the model. Default: the name of the source.

Two sources must not have the same: each would take for deleted what only the other one follows.
""",
)

NAMESPACE_PROJECTS = cfg.DictOpt(
    "namespace_projects",
    default={},
    help="""
Namespaces that belong to projects of Keystone, as ``namespace:project id``, separated by commas.

A project sees the objects of its namespaces. Only administrators and readers of the system see those of
other namespaces. The API refuses to register a VNF instance of another project in a mapped namespace.

The engine and the API need the same value. A change takes effect at a restart: the engine lists the cluster then, and
writes the project of each object.

Related options: ``cluster``, ``namespaces``.
""",
)


def clusters(conf: cfg.ConfigOpts, *options: cfg.Opt) -> Iterator[tuple[str, str, cfg.ConfigOpts.GroupAttr]]:
    """(source, cluster, its options) of the enabled sources of the driver ``kubernetes``.

    :param options: those that the caller reads; they are registered.
    """
    conf.register_opts(engine.OPTS, group=engine.GROUP)
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        group = conf[f"source_{name}"]
        if group.driver == "kubernetes":
            opts.register_source(conf, name, [CLUSTER, *options])
            yield name, group.cluster or name, group


def namespace_projects(conf: cfg.ConfigOpts) -> dict[tuple[str, str], str]:
    """(cluster, namespace) -> project, of the enabled sources of the driver ``kubernetes``.

    :raises ConfigError: naming the option that is wrong.
    """
    found: dict[tuple[str, str], str] = {}
    for source, cluster, options in clusters(conf, NAMESPACE_PROJECTS):
        for namespace, project in options.namespace_projects.items():
            if not namespace or not project or len(project) > 255:
                entry = f"{namespace}:{project}"
                raise ConfigError(f"[source_{source}] namespace_projects: {entry} is no namespace:project")
            found[cluster, namespace] = project
    return found
