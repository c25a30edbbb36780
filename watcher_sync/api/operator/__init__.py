# SPDX-License-Identifier: Apache-2.0
"""What an operator reads and repairs.

``drifts``      ``/v1/drifts``: what differs from the live systems, and what extensions add
``engines``     ``/v1/engines``: the engines of all groups, leading and standing by
``quarantine``  ``/v1/quarantine``, its reasons, and ``/v1/parked``: the events that could not be applied
``sources``     ``/v1/sources``: the state of the sources and inventories
"""
