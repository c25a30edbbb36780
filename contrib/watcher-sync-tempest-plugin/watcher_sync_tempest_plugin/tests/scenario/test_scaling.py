# SPDX-License-Identifier: Apache-2.0
"""A VNF instance in a cluster: a manager scales it while it holds the lease, and the model shows the new level."""

from __future__ import annotations

import json
from typing import Any

import urllib3
from tempest import config
from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from watcher_sync_tempest_plugin.tests import base

CONF = config.CONF


class ScalingTest(base.BaseWatcherSyncTest):
    """The test is the life-cycle manager: it creates and scales the Deployment itself."""

    credentials = ("project_reader", "project_member", "project_admin")

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.watcher_sync.kubernetes_url:
            raise cls.skipException("[watcher_sync] kubernetes_url is not set")

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.http = urllib3.PoolManager()
        cls.workload = data_utils.rand_name("vdu")
        labels = {"app": cls.workload}
        pod = {"containers": [{"name": "main", "image": CONF.watcher_sync.kubernetes_image}]}
        cls.deployments("POST", "", {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": cls.workload, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })  # fmt: skip
        cls.addClassResourceCleanup(cls.deployments, "DELETE", f"/{cls.workload}", {})
        cls.vnf = cls.register_vnf(
            cls.workload, cluster=CONF.watcher_sync.kubernetes_cluster, namespace=CONF.watcher_sync.kubernetes_namespace
        )

    @classmethod
    def deployments(cls, method: str, path: str, body: Any) -> Any:
        """A request to the cluster."""
        namespace = CONF.watcher_sync.kubernetes_namespace
        url = f"{CONF.watcher_sync.kubernetes_url}/apis/apps/v1/namespaces/{namespace}/deployments{path}"
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = cls.http.request(method, url, body=json.dumps(body), headers={"Content-Type": kind})
        if answer.status >= 400:
            raise RuntimeError(f"{method} {url}: {answer.status}: {answer.data[:500]!r}")
        return json.loads(answer.data)

    def show(self) -> Any:
        return self.entities("project_reader").show_entity("vnf_instances", self.vnf["id"])

    def wait_for_level(self, level: int) -> Any:
        """The instance as a reader sees it, once it is in step with the cluster at this level."""

        def reached() -> Any:
            vnf = self.show()
            return vnf if (vnf["state"], vnf["scale_level"]) == ("SYNCED", {"size": level}) else None

        return self.wait_for(reached, f"level {level} of {self.vnf['id']}")

    def running_pods(self) -> list[str]:
        """The names of the running pods of the workload in the model."""
        pods = self.entities("project_admin").list_entities("pods", name=f"prefix:{self.workload}-", phase="Running")
        return sorted(pod["name"] for pod in pods["pods"])

    @decorators.idempotent_id("9c8bbb9b-b84a-4fad-8ce9-e3fc31da4a16")
    def test_the_level_follows_the_pods_after_the_operation(self) -> None:
        self.assertEqual(1, len(_pods_of(self.wait_for_level(0))))
        operation = self.begin("project_member", self.vnf["id"], "tempest")
        self.deployments("PATCH", f"/{self.workload}/scale", {"spec": {"replicas": 2}})
        self.wait_for(lambda: self._is_scaled(operation), "two pods in the model")
        held = self.show()
        self.assertEqual(({"size": 0}, 1), (held["scale_level"], len(_pods_of(held))))
        self.operations("project_member").end_operation(self.vnf["id"], operation)
        self.assertEqual(self.running_pods(), _pods_of(self.wait_for_level(1)))

    def _is_scaled(self, operation: dict[str, Any]) -> bool:
        self.operations("project_member").send_heartbeat(self.vnf["id"], operation)
        return len(self.running_pods()) == 2


def _pods_of(vnf: dict[str, Any]) -> list[str]:
    """The names of the pods that the instance consists of."""
    resources = vnf["instantiatedVnfInfo"]["vnfcResourceInfo"]
    return sorted(one["computeResource"]["resourceId"] for one in resources)
