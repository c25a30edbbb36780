# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync demo``: the whole system against simulated clouds in one process.

``api``               The demo's API and its page, served in the demo's own process on the loopback interface
``cluster_truth``     What the model has to hold of a fake cluster, reckoned from the server's own store
``command``           The command line of ``watcher-sync demo``
``dcm``               DCM's part of the demo: providers, the way of their events
``demo``              ``watcher-sync demo``: everything at work in one process
``in_process``        A source that somebody in the same process speaks through
``kubernetes``        Kubernetes' part of the demo: a cluster, VNF instances that run in it
``live_cloud``        The simulated cloud at work: its notifications on a bus inside this process
``live_cluster``      The simulated cluster at work: a fake API server with network functions
``live_managers``     Life-cycle managers at work: they take a VNF instance's operation lease
``live_providers``    The simulated DCM at work: rows are posted and status events published, as time goes by
``nats_server``       A NATS server of one's own, and the control plane's side of its stream
``network_functions`` A small cluster of network functions: their workloads
``screen``            What a person sees of the demo: a live picture on a terminal
``watch``             How the demo looks at the engine: from beside, as any other process or thread may
"""
