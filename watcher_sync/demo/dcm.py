# SPDX-License-Identifier: Apache-2.0
"""DCM in the demo: providers, the transport of their events, and the rows that the API creates.

The system or the extra ``demo`` may provide a NATS server. If so, the events pass through it, and the driver
``nats_jetstream`` reads them, as in production. Otherwise they pass through a source in this process, which delays
and duplicates some. The rows are posted to the real API, without a socket.

The server starts before the configuration is written, because that names its port. The providers start when the
engine's store exists.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

import falcon.testing
from oslo_config import cfg

from watcher_sync.assembly.api import make_application
from watcher_sync.demo.in_process import InProcessSource
from watcher_sync.demo.limits import Limits
from watcher_sync.demo.live_providers import LiveProviders, Straight, ThroughStream
from watcher_sync.demo.nats_server import DURABLE, STREAM, SUBJECTS, ControlPlane, find_server, serving
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.reconcile.base import utc_now
from watcher_sync.sources.base import Source
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.dcm.providers import UNTOLD, ProviderSimulator
from watcher_sync.testing.ledger import Truth

__all__ = ("UNTOLD", "Dcm")

_CONFIG: Final = f"""
[source_dcm]
driver = nats_jetstream
servers = {{servers}}
stream = {STREAM}
subject = {SUBJECTS}
durable = {DURABLE}
"""

_SHARE: Final = 0.4
"""The providers' rate, of the cloud's."""

_API: Final = "/v1/service_type_instances"


class Dcm:
    """The providers of one demo; none, where it is to run without."""

    def __init__(self, options: argparse.Namespace, url: str | None, control_plane: ControlPlane | None) -> None:
        self._options = options
        self._source = InProcessSource("dcm")
        self._control_plane = control_plane
        self._providers: LiveProviders | None = None
        self._wanted = options.service_instances > 0
        self.config = _CONFIG.format(servers=url) if url is not None else ""
        """What the configuration says of the source; empty where it is in this process."""
        self.sources: Mapping[str, Source] = {}
        """Sources that no configuration names."""
        if self._wanted and url is None:
            self.sources = {"dcm": self._source}
        self.way = "through NATS JetStream" if url is not None else "within this process" if self._wanted else "not"

    @classmethod
    @contextlib.contextmanager
    def begun(cls, options: argparse.Namespace, limits: Limits, folder: pathlib.Path) -> Iterator[Self]:
        """With a server, where one is wanted and there is one.

        :param folder: where the server keeps its stream.
        :raises DemoFailed: the server does not answer in time.
        """
        executable = find_server() if options.nats and options.service_instances > 0 else None
        if executable is None:
            yield cls(options, None, None)
            return
        with (
            serving(executable, folder) as url,
            contextlib.closing(ControlPlane(url, answer=limits.answer)) as control_plane,
        ):
            yield cls(options, url, control_plane)

    @property
    def published(self) -> int:
        """Messages, of every kind."""
        return self._providers.published if self._providers is not None else 0

    @property
    def repeated(self) -> int:
        """Those of them that came a second time."""
        return self._providers.repeated if self._providers is not None else 0

    @property
    def poisoned(self) -> int:
        """Those of them that belong into quarantine."""
        return self._providers.poisoned if self._providers is not None else 0

    @property
    def failure(self) -> Exception | None:
        """What ended the providers before their time."""
        return self._providers.failure if self._providers is not None else None

    def prepare(self, conf: cfg.ConfigOpts, store: Store, *, held_back: Callable[[], bool]) -> None:
        """Make the providers.

        :param store: for the API's process, which it closes never: it is this one.
        :param held_back: asked before more is published.
        """
        if not self._wanted:
            return
        options = self._options
        way = ThroughStream(self._control_plane) if self._control_plane is not None else Straight(self._source)
        self._providers = LiveProviders(
            ProviderSimulator(seed=options.seed, instances=options.service_instances, clock=utc_now),
            way,
            _poster(conf, store),
            rate=options.rate * _SHARE or None,
            poison_percent=options.poison,
            disorder=options.disorder,
            held_back=held_back,
            seed=options.seed,
        )

    def start(self) -> None:
        """Begin; returns at once."""
        if self._providers is not None:
            self._providers.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and finish what is in hand; whether that was done in ``timeout`` seconds."""
        return self._providers is None or self._providers.stop(timeout)

    def settled(self) -> bool:
        """Whether the engine has committed all that was published."""
        return self._providers is None or self._providers.settled()

    def truth(self) -> Truth:
        """What the model has to hold of DCM."""
        return self._providers.truth() if self._providers is not None else {}


def _poster(conf: cfg.ConfigOpts, store: Store) -> Callable[[dict[str, Any]], None]:
    """What makes a row through the API.

    :raises WatcherSyncError: (the poster) when the API refuses.
    """
    application = make_application(conf, store)
    # Falcon's client reads the signature of the callable, and a middleware may have none.
    client = falcon.testing.TestClient(lambda environ, start_response: application(environ, start_response))

    def post(row: dict[str, Any]) -> None:
        answer = client.simulate_post(_API, json=row, host="localhost")
        if answer.status_code != 201:
            raise WatcherSyncError(f"the API answers {answer.status} to {_API}")

    return post
