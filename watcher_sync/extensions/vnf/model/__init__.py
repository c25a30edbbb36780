# SPDX-License-Identifier: Apache-2.0
"""The evaluation of VNF instances: pure functions over registrations, workloads and pods.

``evaluation``  Compares one VNF instance with the pods of its VDUs: the facet ``observed``, and a report
``levels``      The levels of scaling aspects: a table that the registration makes once
``matching``    Which pods belong to a VDU: those whose controller is the registered workload
``vnfcs``       vnfcResourceInfo (ETSI GS NFV-SOL 003, VnfcResourceInfo) with ids that outlast the pods
``workloads``   Which VNF instances a pod or a workload concerns, as an index of full names
"""
