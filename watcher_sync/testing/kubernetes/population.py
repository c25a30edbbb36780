# SPDX-License-Identifier: Apache-2.0
"""Creates many pods at once, as controllers leave them: settled Deployments of equal size."""

from __future__ import annotations

from watcher_sync.testing.kubernetes.builders import deployment, node, pod_status
from watcher_sync.testing.kubernetes.server import KubernetesServer
from watcher_sync.testing.kubernetes.workloads import HASH, pod_of, replica_set_of, template_hash


def populate(server: KubernetesServer, pods: int, *, per_workload: int = 10, namespace: str = "default") -> None:
    """Create Deployments with their ReplicaSets and running pods; the controllers find nothing to do.

    :param pods: how many in all; the last Deployment has what is left.
    """
    if not server.objects("Node"):
        server.load(node(f"node-{number}") for number in range(max(3, pods // 100)))
    nodes = [item["metadata"]["name"] for item in server.objects("Node")]
    with server.store.changed:
        for number, first in enumerate(range(0, pods, per_workload)):
            replicas = min(per_workload, pods - first)
            counted = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
            status = {**counted, "observedGeneration": 1}
            made = deployment(f"vdu{number}", replicas=replicas, namespace=namespace)
            made["status"] = {**status, "unavailableReplicas": 0, "updatedReplicas": replicas}
            owner = server.create(made)
            hashed = template_hash(owner["spec"]["template"])
            middle = replica_set_of(owner, hashed, replicas=replicas)
            middle["metadata"]["namespace"] = namespace
            middle = server.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", **middle, "status": status})
            for index in range(first, first + replicas):
                name = f"{middle['metadata']['name']}-{server.writes.suffix()}"
                obj = pod_of(middle, name, {HASH: hashed}, node=nodes[index % len(nodes)])
                obj["metadata"]["namespace"] = namespace
                obj["status"] = pod_status(obj, "Running", ready=True)
                obj["status"]["podIP"] = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
                server.load([{"apiVersion": "v1", "kind": "Pod", **obj}])
