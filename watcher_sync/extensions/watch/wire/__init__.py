# SPDX-License-Identifier: Apache-2.0
"""The watch stream's messages, wire-compatible with the Axway dialect.

``datamodel_pb2``  generated from datamodel.proto: a resource
``descriptions``   what a watch event says, before it has a form
``events_pb2``     generated from events.proto: requests and events
``messages``       writes a change as a message and as the JSON element of the REST twin
``topic_links``    the paths of watch topics and their versions

``make proto`` generates the two modules and their type stubs.
"""
