# SPDX-License-Identifier: Apache-2.0
"""What every resource of the API shares: operations, policy, problems, OpenAPI.

``access_log``        WSGI middleware: a line per request in the access log, and per write in the audit log
``audit``             CADF notifications of requests
``authentication``    WSGI middleware: tokens of Keystone, or requests from the loopback interface only
``bearer_tokens``     WSGI middleware: a Bearer token counts as ``X-Auth-Token`` for watch topics and their events
``caller``            The caller of a request, as authentication has written it into the environment
``client_address``    WSGI middleware: the address of the client of a request, behind proxies that are trusted
``epochs``            The epoch of a position in the journal, in requests and answers
``etags``             ETag, If-Match and If-None-Match (RFC 9110)
``feed``              One thread reads new journal rows for all streams and long polls of a process
``healthcheck``       ``/healthcheck`` for load balancers, and its backends
``keystone``          Checks tokens with keystonemiddleware, and answers 503 while Keystone is unavailable
``login``             Gets a token from Keystone with the name and the password of a user
``metrics``           ``/metrics``: what the database tells about engines, sources and drifts
``openapi``           Generates the OpenAPI 3.1 document from the operations of the routes
``operation``         The declaration of a REST method, and the reading of its requests
``origins``           The hosts, web pages and proxies of trusted requests
``patterns``          The ``pattern`` of schemas, in which ``$`` is the end of the text
``policies``          Collects the policy's rules and their defaults from the operations
``problems``          Answers every error with problem details (RFC 9457)
``rate_limits``       Limits the writes and the new event streams of each identity
``removed``           Marks the entities of removed sources
``request_context``   The caller of one request, and what the policy allows it
``request_ids``       Every request has an id, in its answer, in logs and in the journal; and an actor
``response_headers``  Adds nosniff, no-store and Vary to every answer
``response_stream``   An answer that is made piece by piece, and what is released when it ends
``rules``             The named rules of the policy: the roles and scopes of OpenStack's secure RBAC
``schemas``           JSON Schemas (draft 2020-12) of entities, journal rows and pages
``slashes``           Ids with a slash in the paths of items and histories
``spans``             WSGI middleware: a request is one span of OpenTelemetry
``validation``        Validates documents against JSON Schemas, and names the wrong fields
``versions``          ``/versions``, ``/v1`` and ``/openapi.json``
``visibility``        What of the model one caller sees: its project, without the fields that tell of hosts
"""
