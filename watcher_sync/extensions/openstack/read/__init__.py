# SPDX-License-Identifier: Apache-2.0
"""What the database says of hosts and their instances.

``compute_model``  Reads hosts and servers of one generation as the JSON text of one document
``host_usage``     The fields ``used_*`` and ``free_*`` of compute nodes, computed from the instances of hosts
"""
