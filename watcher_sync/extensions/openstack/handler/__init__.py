# SPDX-License-Identifier: Apache-2.0
"""The dialect of Nova: versioned notifications become compute nodes and instances.

``aggregates``  the hosts of an aggregate: those of its last list, and those that joined since
``facets``      the facets of an instance as a payload has them
``failures``    failures that name no instance, and the instances whose actions failed
``handler``     notifications become changes of compute nodes, instances and aggregates
``instances``   the change of one instance: what an event owns, and what it copies
``ordering``    the versions of Nova's events, and which orders are doubtful
``ownership``   which facets each event type owns, and which compute published it
``payloads``    decoding of the payloads, with a check of their versions
"""
