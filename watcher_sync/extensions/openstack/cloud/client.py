# SPDX-License-Identifier: Apache-2.0
"""Authenticated access to the APIs of an OpenStack cloud, as raw JSON.

An :class:`OpenStackCloud` is the account of a section. It connects at the first request; any thread may use it. A
:class:`CloudClient` makes the requests of one run: it knows the run's deadline, and counts them.

Each failure has a type of its own. A client repeats a request after a cut connection, and after 502, 503 and 504. It
waits if a service asks for a pause. It reads the catalogue again if an endpoint may have moved. keystoneauth
renews expired tokens.

The log has the address of a failure; its message has none.

openstacksdk is imported when an account is made: the import is slow.
"""

from __future__ import annotations

import collections
import datetime
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.accounts import cause_of, share_between_threads, tls_cause_of
from watcher_sync.backoff import Backoff
from watcher_sync.conf import cloud_account
from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.openstack.cloud.account import make_account, settle_region
from watcher_sync.extensions.openstack.cloud.errors import (
    AWAY,
    DEFAULT_PAUSE_SECONDS,
    AnswerTooLarge,
    CloudError,
    CloudRequestRefused,
    CloudUnavailable,
    RateLimited,
    UnreadableAnswer,
    date_of,
    error_of,
    shown,
)
from watcher_sync.extensions.openstack.cloud.json import decode
from watcher_sync.extensions.openstack.conf import reconcile_nova

LOG = logging.getLogger(__name__)

COMPUTE: Final = "compute"
PLACEMENT: Final = "placement"

Microversion = tuple[int, int]

_VERSIONS: Final = {COMPUTE: "2"}

_MAX_RETRIES: Final = 5
"""Failed requests in a row to one service that a run repeats."""
_FIRST_PAUSE_SECONDS: Final = 0.5
_MAX_PAUSE_SECONDS: Final = 4.0
_LEAST_SKEW: Final = datetime.timedelta(seconds=2)
_MOST_SKEW: Final = datetime.timedelta(days=2)
"""A date that differs more is of no clock: a token would have expired."""
_ADDRESS: Final = re.compile(r"https?://[^/\s]+")

T = TypeVar("T")


def path_of(collection: str, entity_id: str) -> str:
    """Return the path of one object of a collection, such as ``/servers``.

    :raises ValueError: the id would change the path: HTTP libraries resolve dots, even encoded ones.
    """
    if entity_id in ("", ".", ".."):
        raise ValueError(f"the id {entity_id!r} cannot be part of a path")
    return f"{collection}/{quote(entity_id, safe='')}"


class OpenStackCloud:
    """One account of one cloud."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        group: str = reconcile_nova.GROUP,
        *,
        versions: Mapping[str, str] = _VERSIONS,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Reads the account. It contacts nothing.

        :param group: the section with the account.
        :param versions: service -> major version of its API, where it may have several endpoints.
        :param monotonic: the clock of the deadlines, in seconds.
        :param wait: waits for a number of seconds.
        :raises ConfigError: the options name no usable account.
        """
        cloud_account.register_auth_opts(conf, group)
        cloud_account.require_account(conf, group)
        self.section = group
        self._account = make_account(conf, group)
        share_between_threads(self._account.session.auth)
        self._versions = versions
        self.monotonic = monotonic
        self.wait = wait
        self._logged: dict[str, str] = {}
        """Service -> the kind of the last logged failure. A race of two threads costs at most a second log line."""

    def client(self, deadline: float) -> CloudClient:
        """Make the client of one run.

        :param deadline: ``monotonic`` time by which its requests are to end.
        """
        return CloudClient(self, deadline)

    def log_failure(self, service: str, error: Exception) -> None:
        """Log the address and the cause of a failure, unless the last one of this service was of the same kind."""
        kind, cause = type(error).__name__, cause_of(error)
        if self._logged.get(service) != kind:
            self._logged[service] = kind
            address = _ADDRESS.search(str(error))
            known = f"{address[0]}: {cause}" if address and cause else " ".join(str(error).split())
            LOG.warning("[%s] %s: %s", self.section, self.asked(service, error), known)

    def asked(self, service: str, error: Exception) -> str:
        """Return which service a failed request was to: ``keystone``, which the library asks for a token, or this."""
        auth_url = (getattr(self._account.session.auth, "auth_url", None) or "").rstrip("/")
        return "keystone" if auth_url and f"{auth_url}/" in str(error) else service

    def forget_endpoints(self) -> None:
        """Have the next request get a token, and with it the catalogue."""
        self._account.session.invalidate()

    def note_success(self, service: str) -> None:
        """Have the next failure of a service logged again."""
        self._logged.pop(service, None)

    def adapter(self, service: str) -> Any:
        """Return the keystoneauth adapter of a service, such as ``compute``. It contacts nothing yet."""
        # Imported here: see the module.
        from keystoneauth1.adapter import Adapter

        account = self._account
        return Adapter(account.session, version=self._versions.get(service), **account.where(service))


class CloudClient:
    """The requests of one run. For one thread."""

    def __init__(self, cloud: OpenStackCloud, deadline: float) -> None:
        self._cloud = cloud
        self._deadline = deadline
        self._adapters: dict[str, Any] = {}
        self._highest: dict[str, Microversion] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        """Service -> its failed requests in a row that another attempt may follow."""
        self._located: set[str] = set()
        """Services whose endpoint is known to be where it was, or was looked up again."""
        self._skews: dict[str, datetime.timedelta] = {}
        self.requests = 0
        """Requests so far, those after a pause included."""

    def clock_skew(self, service: str) -> datetime.timedelta:
        """Return how much the clock of a service is ahead of ours, by the header ``Date`` of its answers in this run.

        It is 0 below two seconds: the header has whole seconds, and an answer takes time. A date that differs by more
        than two days does not count: an event would be older than the listing for as long.
        """
        skew = self._skews.get(service, datetime.timedelta())
        return skew if abs(skew) >= _LEAST_SKEW else datetime.timedelta()

    def negotiate(self, service: str, highest: Microversion) -> str:
        """Return the highest microversion that the service supports, up to ``highest``.

        :raises CloudError: the service cannot be asked.
        """
        if service not in self._highest:
            self._highest[service] = self._repeated(service, lambda: self._supported(service))
        return "{}.{}".format(*min(self._highest[service], highest))

    def _supported(self, service: str) -> Microversion:
        data = self._guarded(service, self._adapter(service).get_endpoint_data)
        supported: Microversion | None = getattr(data, "max_microversion", None)
        if supported is None:
            self._look_up_again(service)
            raise self._undiscovered(service)
        return supported

    def _undiscovered(self, service: str) -> CloudError:
        """Return why no microversions are found: the library passes over the failures of its requests for them.

        :raises CloudError: the endpoint cannot be reached.
        """
        adapter = self._adapter(service)
        url = self._guarded(service, lambda: adapter.get_endpoint(skip_discovery=True)) or ""
        response = self._request(service, url, None, None)
        path = urlsplit(url).path or "/"
        if response.status_code == 404:  # the service is not there: no CloudNotFound, which is of a resource
            return CloudUnavailable(f"{service} {path}: 404", 0.0)
        if response.status_code >= 400:
            return error_of(service, path, response)
        kind = response.headers.get("Content-Type", "without a type")
        return CloudUnavailable(f"{service} {path}: it does not name its microversions; it answers {shown(kind)}", 0.0)

    def get(
        self, service: str, path: str, *, params: Mapping[str, Any] | None = None, microversion: str | None = None
    ) -> bytes:
        """Get a resource, and return the body of the answer.

        :param path: below the service's endpoint, such as ``/servers/detail``.
        :param microversion: such as ``2.87``; None: the service's lowest.
        :raises CloudError: a type for each kind of failure.
        """
        return self._repeated(service, lambda: self._get(service, path, params, microversion))

    def _repeated(self, service: str, ask: Callable[[], T]) -> T:
        """Ask a service, and repeat that after a failure that may be over soon.

        :raises CloudError: the last failure.
        """
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        while True:
            try:
                answer = ask()
            except CloudError as exc:
                if exc.retry_after is None:
                    raise
                self._failures[service] += 1
                pause = max(exc.retry_after, backoff.failed())
                left = self._deadline - self._cloud.monotonic()
                if self._failures[service] > _MAX_RETRIES or pause >= left:
                    raise
                LOG.debug("Retrying in %.1f s: %s", pause, exc)
                self._cloud.wait(pause)
            else:
                del self._failures[service]
                return answer

    def read(
        self,
        decoder: msgspec.json.Decoder[T],
        service: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        microversion: str | None = None,
    ) -> T:
        """Get a resource, and decode it.

        :raises CloudError: as :meth:`get`; :class:`UnreadableAnswer` where a field has the wrong type.
        """
        body = self.get(service, path, params=params, microversion=microversion)
        try:
            return decode(decoder, body)
        except UNDECODABLE as exc:
            raise UnreadableAnswer(f"{service} {path}: {exc}") from None

    def _get(self, service: str, path: str, params: Mapping[str, Any] | None, microversion: str | None) -> bytes:
        response = self._request(service, path, params, microversion)
        if response.status_code == 200:
            body: bytes = response.content
            return body
        if response.status_code == 404 and self._has_moved(service):
            raise CloudUnavailable(f"{service}: 404 at its endpoint", 0.0)
        raise error_of(service, path, response)

    def _has_moved(self, service: str) -> bool:
        """Whether nothing of a service is found, not even its root, so that its endpoint is looked up again."""
        if service in self._located:
            return False
        if self._request(service, "", None, None).status_code == 404:
            self._look_up_again(service)
            return True
        self._located.add(service)
        return False

    def _look_up_again(self, service: str) -> None:
        """Have the catalogue read again, once in a run: the endpoint of the service may have moved."""
        if service not in self._located:
            self._located.add(service)
            self._cloud.forget_endpoints()

    def _request(self, service: str, path: str, params: Mapping[str, Any] | None, microversion: str | None) -> Any:
        left = self._deadline - self._cloud.monotonic()
        if left <= 0:
            raise CloudUnavailable(f"{service}: no time is left for {path}")
        self.requests += 1
        adapter = self._adapter(service)
        extra: dict[str, Any] = {}
        timeout = adapter.session.timeout
        if timeout is None or timeout > left:
            extra["timeout"] = left
        if params:
            extra["params"] = params
        if microversion is not None:
            extra["microversion"] = microversion
        response = self._guarded(service, lambda: adapter.get(path, raise_exc=False, **extra))
        self._cloud.note_success(service)
        if (date := date_of(response.headers.get("Date"))) is not None:
            # The answer that took the shortest time says it best.
            skew = date - datetime.datetime.now(datetime.UTC)
            if abs(skew) <= _MOST_SKEW:
                self._skews[service] = max(skew, self._skews.get(service, skew))
        return response

    def _adapter(self, service: str) -> Any:
        """:raises CloudError: the catalogue does not have the service in one region."""
        if service not in self._adapters:
            adapter = self._cloud.adapter(service)
            section = self._cloud.section
            problem = self._guarded(service, lambda: settle_region(adapter, section))
            if problem:
                self._look_up_again(service)
                raise CloudUnavailable(f"{service}: {problem}")
            self._adapters[service] = adapter
        return self._adapters[service]

    def _guarded(self, service: str, call: Callable[[], Any]) -> Any:
        """Call the library, and turn its exceptions into ours.

        :raises CloudError: the call failed.
        """
        # Imported here: see the module.
        from keystoneauth1 import exceptions as ksa

        try:
            return call()
        except AnswerTooLarge as exc:
            raise AnswerTooLarge(f"{service} {exc}") from None
        except ksa.HttpError as exc:  # from Keystone, which the library asks for a token
            what = f"keystone: {exc.http_status}: {shown(exc.message)}"
            if exc.http_status in (401, 403):
                raise CloudRequestRefused(what) from None
            if exc.http_status == 429:
                raise RateLimited(what, float(exc.retry_after or DEFAULT_PAUSE_SECONDS)) from None
            raise CloudUnavailable(what, 0.0 if exc.http_status in AWAY else None) from None
        except ksa.DiscoveryFailure as exc:  # of Keystone's versions; those of other services are optional
            self._cloud.log_failure("keystone", exc)
            why = cause_of(exc) or shown(str(exc.__context__ or exc))
            raise CloudUnavailable(f"keystone: it does not name its versions: {why}") from None
        except ksa.EndpointNotFound:
            self._look_up_again(service)
            raise CloudUnavailable(f"{service}: the catalogue has no endpoint of it") from None
        except ksa.ClientException as exc:
            self._cloud.log_failure(service, exc)
            reason = tls_cause_of(exc) if isinstance(exc, ksa.SSLError) else cause_of(exc)
            reason = reason or type(exc).__name__
            asked = self._cloud.asked(service, exc)
            if asked == service and isinstance(exc, ksa.ConnectFailure | ksa.ConnectTimeout):
                self._look_up_again(service)
            is_cut = isinstance(exc, ksa.ConnectFailure | ksa.UnknownConnectionError)
            raise CloudUnavailable(f"{asked}: {reason}", 0.0 if is_cut else None) from None
        except OSError as exc:  # of a file of the account that is not there any more
            self._cloud.log_failure(service, exc)
            raise CloudUnavailable(f"{service}: {shown(str(exc))}") from None
