# SPDX-License-Identifier: Apache-2.0
"""What a VNF instance should be, and what it is: pure functions over registrations, workloads and pods.

Nothing here reads or writes anything::

    levels     registration -> table of levels; vector of pods -> level
    matching   VDU -> its workload -> its pods, by uid
    vnfcs      pods -> vnfcResourceInfo with ids that stay
    observing  all of it for one instance -> the values of its facet "observed"

Both who follows events and who reconciles periodically call :func:`~watcher_sync.model.vnf.observing.observe`.
"""
