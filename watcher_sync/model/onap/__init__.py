# SPDX-License-Identifier: Apache-2.0
"""The status of instances in the dialect of ONAP's k8splugin: pure functions over a view.

``documents``  The documents of resources and of instances, and which fields are their status
``instances``  What an instance is, which resources it has, and which instances a changed entity concerns
``merging``    Merges the changes of one subscription between two deliveries into ``resource-changes``
"""
