# SPDX-License-Identifier: Apache-2.0
"""Limits the rate of writes, and of new event streams, of each identity. A request above the limit gets 429.

The middleware counts the writes. The module ``feed`` counts a stream or long poll when it takes a slot.

An identity is a user in a project, or the client's address if the request has no valid token. Each has two token
buckets: one for writes, and one for event streams and long polls. A bucket holds ``burst`` tokens, and gets ``rate``
tokens a second.

The buckets are in the memory of one worker process. The limit of the whole API is that of a worker times the number of
workers. A process remembers the last :data:`MAX_IDENTITIES` identities.
"""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg

from watcher_sync.api.edge.proxies import client_of
from watcher_sync.api.http.problems import Problem, wsgi_answer

MAX_IDENTITIES = 10_000

Wsgi = Callable[..., Iterable[bytes]]

Identity = tuple[str, ...]

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Wraps the application in the limits of ``[api]``."""
    return RateLimits(application, conf)


def identity_of(environ: Mapping[str, Any]) -> Identity:
    """The identity of a request, after authentication."""
    if environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed":
        return ("user", environ.get("HTTP_X_USER_ID", ""), environ.get("HTTP_X_PROJECT_ID", ""))
    return ("address", client_of(environ))


class TokenBuckets:
    """A token bucket for each identity. Used by all threads."""

    def __init__(self, rate: float, burst: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """:param rate: tokens a second; 0: no limit.

        :param burst: the size of a bucket.
        """
        self._rate = rate
        self._burst = float(burst)
        self._monotonic = monotonic
        # Guards the buckets.
        self._lock = threading.Lock()
        self._buckets: collections.OrderedDict[Identity, tuple[float, float]] = collections.OrderedDict()
        """Identity -> (tokens, when they were counted), the least recently used first."""

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, identity: Identity) -> float:
        """Take a token.

        :returns: 0.0: taken; else the seconds until there is one.
        """
        if not self._rate:
            return 0.0
        now = self._monotonic()
        with self._lock:
            tokens, since = self._buckets.pop(identity, (self._burst, now))
            tokens = min(self._burst, tokens + (now - since) * self._rate)
            is_taken = tokens >= 1.0
            self._buckets[identity] = (tokens - 1.0 if is_taken else tokens, now)
            if len(self._buckets) > MAX_IDENTITIES:
                self._buckets.popitem(last=False)
        return 0.0 if is_taken else (1.0 - tokens) / self._rate

    def give_back(self, identity: Identity) -> None:
        """Return a token that was taken."""
        with self._lock:
            if identity in self._buckets:
                tokens, since = self._buckets[identity]
                self._buckets[identity] = (min(self._burst, tokens + 1.0), since)

    def charge(self, identity: Identity, what: str) -> None:
        """Take a token for a request.

        :param what: what the bucket limits, for the problem's text.
        :raises Problem: 429 when there is none.
        """
        if seconds := self.take(identity):
            raise Problem(429, f"Too many {what}; retry later", headers={"Retry-After": str(math.ceil(seconds))})


class RateLimits:
    """WSGI middleware. It follows the authentication, so it knows the identity."""

    def __init__(
        self, application: Wsgi, conf: cfg.ConfigOpts, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._application = application
        settings = conf.api
        self._writes = TokenBuckets(settings.write_rate, settings.write_burst, monotonic=monotonic)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        if environ["REQUEST_METHOD"] not in _READS:
            try:
                self._writes.charge(identity_of(environ), "writes")
            except Problem as problem:
                status, headers, body = wsgi_answer(problem)
                start_response(status, headers)
                return [body]
        return self._application(environ, start_response)
