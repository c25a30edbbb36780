# SPDX-License-Identifier: Apache-2.0
"""The REST API: a WSGI application on Falcon.

``core``       What every resource shares: operations, policy, problems, OpenAPI
``resources``  The resources, one module each
``service``    The database, the kinds and the options that all resources of a process share
``ui``         The page at ``/`` and its static files
"""
