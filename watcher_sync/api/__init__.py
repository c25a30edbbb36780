# SPDX-License-Identifier: Apache-2.0
"""The REST API: a WSGI application on Falcon.

``changes``   The journal, as it grows
``edge``      What every request passes: logs, audit, limits, health, metrics
``entities``  The entities of each kind: lists, items, histories, writes, views
``http``      One request: its declaration, its checks, its answer. No resource
``identity``  Who asks, and what the policy lets them see
``operator``  What an operator reads and repairs
``service``   The database, the kinds and the options that all resources share, and what a request reads of them
``ui``        The page at ``/`` and its static files
"""
