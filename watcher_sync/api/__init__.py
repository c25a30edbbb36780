# SPDX-License-Identifier: Apache-2.0
"""The REST API: a WSGI application on Falcon, one module per resource.

A resource's methods are declared with :func:`~watcher_sync.api.operation.operation`, which checks who asks
and what, and from which the OpenAPI document and the policy follow. Nothing here holds a replica: what is
read is read from the tables, and what is written is committed before it is answered.
"""
