# SPDX-License-Identifier: Apache-2.0
"""What an operator reads and repairs.

``drift_explanations``  Explains drifts in words: what differs, and what an operator can do
``drifts``              ``/v1/drifts``: what differs from the live systems and from the levels of VNF instances
``engines``             ``/v1/engines``: the engines of all groups, leading and standing by
``leases``              ``/v1/leases``: the operation leases that are held now
``parked``              ``/v1/parked``: the events that wait for an entity
``quarantine_reasons``  ``/v1/quarantine_reasons``: quarantined events counted by reason and source
``quarantine``          ``/v1/quarantine``: list, show, replay and drop quarantined events
``sources``             ``/v1/sources``: the state of the sources and inventories
"""
