# SPDX-License-Identifier: Apache-2.0
"""The status of instances in the dialect of ONAP's k8splugin: pure functions over a view.

``documents``  What an instance of the dialect is, its resources, and the documents of both
``merging``    Merges the changes of one subscription between two deliveries into ``resource-changes``
"""
