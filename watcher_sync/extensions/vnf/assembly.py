# SPDX-License-Identifier: Apache-2.0
"""The evaluation of VNF instances, made from the configuration."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.extensions.kubernetes.source.source import cluster_targets
from watcher_sync.extensions.vnf.evaluation import VnfEvaluation
from watcher_sync.extensions.vnf.handler import KIND, VnfHandler
from watcher_sync.extensions.vnf.notifications import VnfNotifications
from watcher_sync.reconcile.notify import Notifications


def make_evaluation(conf: cfg.ConfigOpts) -> VnfEvaluation:
    """The evaluation of the VNF instances in the clusters of this process's sources; of none, if the policy of
    vnf_instance is to observe.

    :raises ConfigError: the configuration cannot work.
    """
    heals = policies(conf).get(KIND, HEAL) == HEAL
    return VnfEvaluation(
        cluster_targets(conf) if heals else {},
        handler=VnfHandler(conf.reconcile),
        notifications=VnfNotifications(Notifications(conf)),
    )
