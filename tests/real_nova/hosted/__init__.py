# SPDX-License-Identifier: Apache-2.0
"""Programs of the cloud. They run in the cloud's interpreter, and import nothing of this project.

compute
    A ``nova-compute`` with the driver below.
guests
    The virt driver: Nova's fake driver, with guests that survive a restart and failures on demand.
network
    The part of Neutron's API that Nova uses, in memory.
serve
    A WSGI server for the API services.
"""
