# SPDX-License-Identifier: Apache-2.0
"""The application on a real socket in a thread of this process, and clients of it."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import wsgiref.simple_server

import pytest

from tests.unit.api import conftest as api
from tests.waiting import deadline
from watcher_sync.client import connect

conf = api.conf
store = api.store
cycle = api.cycle
truth = api.truth
application = api.application


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    allow_reuse_address = True


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def served(application, port=0):
    """Its URL while it is served."""
    server = wsgiref.simple_server.make_server("127.0.0.1", port, application, _Server, _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(deadline(60))


@pytest.fixture
def url(application):
    with served(application) as url:
        yield url


@pytest.fixture
def client(url):
    return connect(url)


class Answering:
    """A WSGI application that sends the given answers in their order, and stores the requests."""

    def __init__(self):
        self.answers = []
        self.asked = []

    def will(self, status, body=b"", **headers):
        self.answers.append((status, body, [(name.replace("_", "-"), value) for name, value in headers.items()]))

    def __call__(self, environ, start_response):
        self.asked.append(environ)
        status, body, headers = self.answers.pop(0)
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]


@pytest.fixture
def answering():
    return Answering()


@pytest.fixture
def answered_client(answering):
    """A client of an API that sends the given answers."""
    with served(answering) as url:
        yield connect(url, timeout=deadline(60))
