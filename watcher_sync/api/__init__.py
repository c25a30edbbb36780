# SPDX-License-Identifier: Apache-2.0
"""The REST API: a WSGI application on Falcon.

``app``       The application: routes, checks, and the WSGI middlewares around them
``core``      What every resource of the API shares: operations, policy, problems, OpenAPI
``resources`` The resources of the API, one module each
``service``   What all resources work with, and one consistent look at the database
``ui``        The page, and the static files that it needs
"""
