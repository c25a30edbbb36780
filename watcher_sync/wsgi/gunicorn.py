# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn for the API: ``gunicorn --config python:watcher_sync.wsgi.gunicorn``.

Options of the command line override them. gunicorn reads a request in a thread, so that a slow client occupies one. A
proxy that buffers requests must be in front, such as nginx with ``etc/nginx/watcher-sync-api.conf``.
"""

bind = "127.0.0.1:8790"
workers = 2
worker_class = "gthread"
threads = 80
timeout = 60
graceful_timeout = 10
keepalive = 75  # nginx closes an idle connection after 60 seconds; it must be the first
