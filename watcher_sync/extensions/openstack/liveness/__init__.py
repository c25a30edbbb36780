# SPDX-License-Identifier: Apache-2.0
"""The liveness of hosts: up or down, by Nova's list of services and by the silence of the host.

``rules``    For how long a host was silent, and the changes of the facet ``liveness``. No I/O
``service``  Checks at intervals, while the engine leads, which hosts are silent, and asks Nova for them
``writer``   Writes the changes, and logs them
"""
