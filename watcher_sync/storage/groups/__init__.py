# SPDX-License-Identifier: Apache-2.0
"""What engines agree on: leases, memberships, and the state of sources.

``engines``           The engines of all groups, leading and standing by
``followed_sites``    Which sites are followed, by which sources
``leases``            The lease of an engine group: one engine leads, the others are standbys
``operation_leases``  The rows of operation leases and of operations
``removed_sources``   What removed sources left behind
``source_status``     The state of each source and each inventory, as the engine reports it
"""
