# SPDX-License-Identifier: Apache-2.0
"""The dialect of Nova: versioned notifications become compute nodes and instances.

``handler``  Nova's versioned notifications, turned into changes of compute nodes, instances and aggregates
``payloads`` The payloads of Nova's versioned notifications, as far as the model uses them
"""
