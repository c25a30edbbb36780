# SPDX-License-Identifier: Apache-2.0
"""The kinds of Kubernetes that the options of the sources name, which become workloads or custom objects.

The source follows these kinds. The handler of Kubernetes spells them as the options do, and reads the values of custom
objects at the paths that the same option has.
"""

from __future__ import annotations

from oslo_config import cfg

RESOURCES = cfg.ListOpt(
    "resources",
    default=["pods", "deployments", "replicasets", "statefulsets", "daemonsets"],
    advanced=True,
    help="""
What to follow: ``pods``, ``deployments``, ``replicasets``, ``statefulsets``, ``daemonsets``, and any other kind as
``group/Kind`` or ``group/version/Kind``, such as ``argoproj.io/Rollout`` (``v1/ConfigMap`` in the core group), which
becomes a workload of the model. Name custom controllers that own pods here, and all else in ``kinds``.

Without a version, the source takes one that the cluster serves, the preferred one first. A kind may be named once, in
one version, and either here or in ``kinds``.

Related options: ``kinds``.
""",
)

KINDS = cfg.MultiStrOpt(
    "kinds",
    default=[],
    help="""
A kind of objects to follow as custom objects, such as those of a CustomResourceDefinition. Repeat the option for each
kind.

The value is ``group/Kind`` or ``group/version/Kind`` (``version/Kind`` in the core group), and any number of
``name=path``, separated by white space. It may go on in the next line if that begins with white space. Without a
version, the source takes one that the cluster serves, the preferred one first. These names have a meaning:

* ``state``: the path of its state, such as ``state=.status.phase``.
* ``owner``: the path of the uid of its owner. Default: the owner reference with ``controller: true``.
* ``scope``: the path of the namespace whose project it belongs to. Default: ``.metadata.namespace``.

Each other name is a property, such as ``ip=.status.interfaces[0].ipAddress``. A path has members (``.status``,
``["a key"]``), indexes (``[0]``), and filters for the first match (``[?type=="Ready"]``).

A value that is missing, or too large, is null. The state, owner and scope are texts of up to 255 characters. All
properties of an object share 512 KiB equally.

The cluster need not serve the kind yet: the source follows it as soon as it does.

The engine and the API need the same value. A change takes effect at a restart.

Related options: ``resources``, ``namespace_projects``, ``backoff_max``.
""",
)
