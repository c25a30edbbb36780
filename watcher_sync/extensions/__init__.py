# SPDX-License-Identifier: Apache-2.0
"""The capabilities of this package beyond its core, one folder each, with the same file names.

``dcm``         Providers of a Data Center Manager and their service type instances
``federation``  Follows other installations of watcher_sync
``kubernetes``  Clusters, their workloads and pods, and custom objects
``log``         Outlets that publish the journal on logs
``openstack``   Nova's notifications and APIs, capacity and liveness of hosts
``vnf``         Registrations of VNF instances, their evaluation and their sync
``watch``       The gRPC watch stream
``webhooks``    Subscriptions and their deliveries
"""
