# SPDX-License-Identifier: Apache-2.0
"""The watch stream's messages, wire-compatible with the Axway dialect.

* datamodel_pb2: generated from datamodel.proto: a resource
* events_pb2: generated from events.proto: requests and events

``make proto`` generates both modules and their type stubs.
"""
