# SPDX-License-Identifier: Apache-2.0
"""What every request passes: logs, audit, limits, health, metrics.

``access_log``        WSGI middleware: a line per request in the access log, and per write in the audit log
``audit``             CADF notifications of requests
``client_address``    WSGI middleware: the address of the client of a request, behind proxies that are trusted
``feed``              One thread reads new journal rows for all streams and long polls of a process
``healthcheck``       ``/healthcheck`` for load balancers, and its backends
``metrics``           ``/metrics``: what the database tells about engines, sources and drifts
``rate_limits``       Limits the writes and the new event streams of each identity
``response_headers``  Adds nosniff, no-store and Vary to every answer
``spans``             WSGI middleware: a request is one span of OpenTelemetry
"""
