# SPDX-License-Identifier: Apache-2.0
"""Handlers: one event and a view become changes, without I/O. One package per dialect.

``base``       What a handler is: a pure translation from one dialect's events into changes of the model
``dcm``        The dialect of DCM: CloudEvents become service type instances and providers
``kubernetes`` The dialect of Kubernetes: watch events become clusters, workloads and pods
``nova``       The dialect of Nova: versioned notifications become compute nodes and instances
``sortable``   Times and ids as text that sorts like them: what versions are made of
``vnf``        The evaluation of VNF instances: pods and workloads of a view become the facet ``observed``
"""
