# SPDX-License-Identifier: Apache-2.0
"""The applications for WSGI servers.

``api``       ``watcher_sync.wsgi.api:application``: the REST API
``gunicorn``  The settings of gunicorn
"""
