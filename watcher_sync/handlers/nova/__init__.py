# SPDX-License-Identifier: Apache-2.0
"""The dialect of Nova: versioned notifications become compute nodes and instances.

``handler``   notifications become changes of compute nodes, instances and aggregates
``payloads``  decoding of the payloads, with a check of their versions
"""
