# SPDX-License-Identifier: Apache-2.0
"""The liveness of hosts: up or down, by Nova's list of services and by the silence of the host.

``rules``           The changes of the facet ``liveness``. Pure functions
``service``         Checks at intervals, while the engine leads, which hosts are silent
``service_states``  Asks Nova's API which compute services are up
``silence``         Measures for how long a host was silent while others of its source published
``writer``          Writes the changes, and logs them
"""
