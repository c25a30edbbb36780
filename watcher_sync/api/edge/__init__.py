# SPDX-License-Identifier: Apache-2.0
"""What every request passes: audit, limits, health, metrics.

``audit``          CADF notifications of requests
``feed``           One thread reads new journal rows for all streams and long polls of a process
``healthcheck``    ``/healthcheck`` for load balancers, and its backends
``late_database``  The API of a process that starts before its database
``metrics``        ``/metrics``: what the database tells about engines, sources and drifts
``proxies``        What trusted proxies tell of a request: its client, and the path that they removed
``rate_limits``    Limits the writes and the new event streams of each identity: a user, or an address behind proxies
``spans``          WSGI middleware: a request is one span of OpenTelemetry
"""
