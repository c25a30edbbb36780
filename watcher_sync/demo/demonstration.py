# SPDX-License-Identifier: Apache-2.0
"""One run of the demo: everything in one process, and the proof that the model is right.

The reconciler lists a cloud (:mod:`watcher_sync.demo.existing_cloud`), which then publishes Nova's notifications.
Simulated providers publish status events (:mod:`watcher_sync.demo.dcm`). A fake cluster is watched
(:mod:`watcher_sync.demo.kubernetes`). A receiver gets webhooks (:mod:`watcher_sync.demo.webhooks`). Some messages are
late, duplicated or broken.

Stop sequence:

1. Cloud and providers publish what they have begun; the cluster comes to rest.
2. The engine commits everything that was published, drains and stops.
3. The reconcilers compare the cloud with the tables once more.
4. The tables are loaded and compared with the truth, and the receiver's view with the tables. The exit status is 0
   only if both are equal.

This thread draws and waits.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from oslo_config import cfg
from rich.console import Console
from rich.live import Live

from watcher_sync.assembly.engine import assemble
from watcher_sync.assembly.store import open_store
from watcher_sync.client import connect
from watcher_sync.client.stats import ModelStats
from watcher_sync.demo import dcm as demo_dcm
from watcher_sync.demo import kubernetes as demo_kubernetes
from watcher_sync.demo import live_cloud
from watcher_sync.demo.api import ServedApi
from watcher_sync.demo.dcm import Dcm
from watcher_sync.demo.existing_cloud import ExistingCloud
from watcher_sync.demo.kubernetes import SOURCE as CLUSTER
from watcher_sync.demo.kubernetes import Kubernetes
from watcher_sync.demo.limits import LIMITS, DemoFailed, Interruption, Limits, until_interrupted
from watcher_sync.demo.outcome import FigureWatch, Outcome, tell_outcome
from watcher_sync.demo.output import DemoOutput
from watcher_sync.demo.run_folder import configure, run_folder
from watcher_sync.demo.screen import DemoFigures, DemoScreen, plain_line
from watcher_sync.demo.webhooks import Webhooks
from watcher_sync.engine.engine import Engine
from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.sources.base import SourceState
from watcher_sync.storage.schema import schema
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.deadlines import Deadline, deadline
from watcher_sync.testing.ledger import Truth

_FRAME: Final = 0.25
"""Seconds between two pictures."""
_PICTURE: Final = 1.0
"""Seconds between two requests of what ``top`` draws."""
_LINE: Final = 2.0
"""Seconds between two lines."""
_MOST_AHEAD: Final = 40
"""Events that the simulated systems are ahead of the commits before they wait; a real cloud does not wait."""
_FASTEST_AHEAD: Final = 2000
"""The same, where they publish as fast as the engine reads."""
_UNTOLD: Final = demo_dcm.UNTOLD | demo_kubernetes.UNTOLD


def run(options: argparse.Namespace, limits: Limits = LIMITS) -> int:
    """The whole demo.

    :param limits: how long it waits.
    :returns: 0 when the model equals the truth, else 1.
    :raises ConfigError: when the options cannot work.
    :raises DemoFailed: when it could not be brought to its end.
    """
    try:
        existing = ExistingCloud(seed=options.seed, hosts=options.hosts, instances=options.instances)
    except ValueError as exc:
        raise ConfigError(f"--hosts: {exc}") from None
    if options.instances < 0 or options.rate < 0 or options.service_instances < 0:
        raise ConfigError("--instances, --service-instances and --rate must not be negative")
    with (
        run_folder(options) as (folder, keep),
        until_interrupted() as interruption,
        contextlib.ExitStack() as running,
    ):
        output = DemoOutput(folder / "outcome")
        with output.step("the simulated systems"):
            begun = running.enter_context
            begun(existing)
            dcm = begun(Dcm.begun(options, limits, folder / "nats"))
            kubernetes = begun(Kubernetes.begun(options, limits, folder))
            webhooks = begun(Webhooks.begun(options, limits))
        with output.step("database, engine and API"):
            demo = _Demo(options, limits, folder, output, existing, dcm, kubernetes, webhooks)
        try:
            status = demo.judge(demo.play(interruption))
        except WatcherSyncError:
            keep.set()
            raise
        if status or output.is_lost:
            keep.set()
        return status


class _Demo:
    """One run: what is started, watched, ended and judged."""

    def __init__(
        self,
        options: argparse.Namespace,
        limits: Limits,
        folder: pathlib.Path,
        output: DemoOutput,
        existing: ExistingCloud,
        dcm: Dcm,
        kubernetes: Kubernetes,
        webhooks: Webhooks,
    ) -> None:
        self._length: float | None = options.length
        """Seconds from the beginning to the end of the simulation, including the start once that is over."""
        self._limits = limits
        terminal = Console().is_terminal
        self._console = Console(file=output, highlight=False, soft_wrap=not terminal)  # type: ignore[arg-type]
        self._plain = options.plain or not terminal
        self._folder = folder
        self._kept = bool(options.state_path or options.keep)
        self._config = folder / "demo.conf"
        self._existing = existing
        self._dcm = dcm
        self._kubernetes = kubernetes
        self._webhooks = webhooks
        parts = (existing.config, dcm.config, kubernetes.config, webhooks.config)
        self._conf = configure(folder, self._config, parts, options.port)
        self._engine = _make_engine(self._conf, dcm)
        self._webhooks.prepare(self._conf)
        self._api = ServedApi(self._conf)
        self._reader = open_store(self._conf)
        self._watch = FigureWatch(self._engine, self._reader)
        self._cloud = live_cloud.LiveCloud(
            existing.simulator,
            rate=options.rate or None,
            poison_percent=options.poison,
            disorder=options.disorder,
            held_back=self._is_ahead,
            seed=options.seed,
        )
        self._dcm.prepare(self._conf, open_store(self._conf), held_back=self._is_ahead)
        self._most_ahead = _MOST_AHEAD if options.rate else _FASTEST_AHEAD
        self._highest_lag = 0
        self._existed = ""
        self._engine_failure: Exception | None = None
        self._thread = threading.Thread(target=self._run_engine, name="engine", daemon=True)
        self._began = time.monotonic()

    def play(self, interruption: Interruption) -> Truth:
        """Run engine and cloud until it is time, then bring both to their end."""
        with self._api, self._shown() as show:
            self._thread.start()
            self._wait(self._listening, show, "starting", self._limits.start, "the source does not connect")
            self._wait(
                self._cloud_is_known, show, "listing the cloud", self._limits.start, "the cloud cannot be listed"
            )
            self._tell_what_existed()
            self._subscribe(show)
            if self._length is not None:  # a slow start must not leave the simulation without time
                self._length += time.monotonic() - self._began
            self._cloud.start()
            self._dcm.start()
            self._kubernetes.start(self._api.url)
            while not interruption.came and not self._is_over():
                show("the cloud runs")
                self._supervise()
                time.sleep(_FRAME)
            self._wait(
                self._has_published_all,
                show,
                "stopping",
                self._limits.stop,
                "the simulated systems do not end",
                progress=self._published,
            )
            self._kubernetes.stop()
            self._supervise()
            self._wait(
                self._is_all_committed,
                show,
                "draining",
                self._limits.stop,
                "not everything that was published is committed, and nothing more is",
                progress=self._watch.committed,
            )
            self._settle(show)
            show("drained", last=True)
        self._seconds = time.monotonic() - self._began
        self._stop_engine()
        self._existing.reconcile(self._conf, self._reader, self._limits.compare)
        self._webhooks.catch_up(self._reader.load().snapshot())
        return self._existing.truth() | self._dcm.truth() | self._kubernetes.truth()

    def judge(self, truth: Truth) -> int:
        """Load the tables, compare, say what came out; the exit status."""
        snapshot = self._reader.load().snapshot()
        outcome = Outcome(
            published=self._published(),
            highest_lag=self._highest_lag,
            seconds=self._seconds,
            repeated=self._cloud.repeated + self._dcm.repeated,
            poisoned=self._cloud.poisoned + self._dcm.poisoned,
            dcm_way=self._dcm.way,
            existed=self._existed,
            repaired=self._existing.repaired,
            outcomes=self._engine.stats.as_dict(),
            quarantined=self._watch.quarantined(),
            lines=[*self._kubernetes.summary(snapshot), *self._webhooks.summary()],
        )
        compared = [*compare(truth, snapshot, ignored=_UNTOLD), *self._kubernetes.differences(snapshot)]
        differences = [*map(str, compared), *self._webhooks.differences(snapshot)]
        tell_outcome(self._console, outcome, snapshot, truth, differences)
        if self._kept or differences:
            self._console.print(f"Stored     {self._folder}; inspect with {self._manage()} --help", soft_wrap=True)
        return 1 if differences else 0

    # Watching

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Callable[..., None]]:
        """The function that shows the figures in a phase, as often as it is worth it."""
        stats = ModelStats(connect(self._api.url, timeout=deadline(self._limits.answer)))
        due = 0.0
        if not self._plain:
            screen = DemoScreen(commands=self._suggested_commands(), page=self._api.url)
            console = Console(file=DemoOutput(None), highlight=False)  # type: ignore[arg-type]
            with Live(screen, console=console, auto_refresh=False, screen=True) as picture:

                def draw(phase: str, *, last: bool = False) -> None:
                    nonlocal due
                    screen.figures = self._figures(phase)
                    if last or time.monotonic() >= due:
                        due = time.monotonic() + _PICTURE
                        screen.stats = stats.refresh()
                    picture.refresh()

                yield draw
            return
        self._console.print(f"Look at it in a browser: {self._api.url}/", soft_wrap=True)
        for command in self._suggested_commands():
            self._console.print(f"Look at it with: {command}", soft_wrap=True)

        def tell(phase: str, *, last: bool = False) -> None:
            nonlocal due
            for line in self._webhooks.new_lines():
                self._console.print(f"Webhook    {line}", markup=False)
            if last or time.monotonic() >= due:
                due = time.monotonic() + _LINE
                self._console.print(plain_line(self._figures(phase), stats.refresh()))

        yield tell

    def _figures(self, phase: str) -> DemoFigures:
        return DemoFigures(
            elapsed=time.monotonic() - self._began,
            length=self._length,
            phase=phase,
            # The cluster does not count its events, so those of the watch have no lag.
            published=self._published() + self._watch.committed(CLUSTER),
            committed=self._watch.committed(),
            outcomes=self._engine.stats.as_dict(),
            quarantined=self._watch.quarantined(),
            quarantine=self._watch.latest_quarantined(),
            vnfs=self._kubernetes.vnfs(self._engine.model.snapshot()),
            operations=self._kubernetes.operations(),
            webhooks=self._webhooks.recent(),
        )

    def _wait(
        self,
        condition: Callable[[], bool],
        show: Callable[..., None],
        phase: str,
        timeout: float,
        problem: str,
        *,
        progress: Callable[[], int] = lambda: 0,
    ) -> None:
        """Wait for a condition.

        :param timeout: seconds on an idle reference machine, from the last time that ``progress`` had another value.
        :raises DemoFailed: it takes longer.
        """
        limit, began, before = Deadline(timeout), time.monotonic(), progress()
        while True:
            is_last = limit.is_over  # before the condition, which a pause of the machine may delay
            if condition():
                return
            self._supervise()
            if (now := progress()) != before:
                limit, began, before = Deadline(timeout), time.monotonic(), now
            elif is_last:
                raise DemoFailed(f"{problem} within {time.monotonic() - began:.0f} s; see {self._folder / 'demo.log'}")
            show(phase)
            time.sleep(0.05)

    def _settle(self, show: Callable[..., None]) -> None:
        """Wait until the model has the cluster. What it should not have may stay, and the comparison lists it.

        :raises DemoFailed: after the limit it still lacks something.
        """
        limit = Deadline(self._limits.settle)
        self._wait(
            lambda: limit.is_over or self._kubernetes.settled(self._engine.model.snapshot()),
            show,
            "settling",
            2 * self._limits.settle,
            "the cluster is not compared",
        )
        if self._kubernetes.lacking(self._engine.model.snapshot()):
            raise DemoFailed(f"the model does not get all objects of the cluster; see {self._folder / 'demo.log'}")

    def _supervise(self) -> None:
        """:raises DemoFailed: when the engine or the cloud has come to an end by itself."""
        if self._engine_failure is not None or not self._thread.is_alive():
            raise DemoFailed(f"the engine has ended: {self._engine_failure or 'without an error'}")
        if self._cloud.failure is not None:
            raise DemoFailed(f"the simulated cloud has ended: {self._cloud.failure!r}")
        if self._dcm.failure is not None:
            raise DemoFailed(f"the simulated providers have ended: {self._dcm.failure!r}")
        if self._kubernetes.failure is not None:
            raise DemoFailed(f"the simulated cluster has ended: {self._kubernetes.failure!r}")
        if self._webhooks.failure:
            raise DemoFailed(f"the outlet has ended: {self._webhooks.failure}")

    def _cloud_is_known(self) -> bool:
        return self._existing.is_known(self._reader)

    def _tell_what_existed(self) -> None:
        """Say what the model has before the first notification."""
        snapshot = self._reader.load().snapshot()
        counts = ", ".join(f"{kind} {snapshot.count(kind):,}" for kind in ("compute_node", "aggregate", "instance"))
        self._existed = f"{counts} before the first notification"
        if self._plain:
            self._console.print(f"The model has {self._existed}")

    def _subscribe(self, show: Callable[..., None]) -> None:
        """Subscribe while nothing happens, and say where to look."""
        self._kubernetes.register(self._api.url)
        self._wait(
            lambda: self._kubernetes.is_registered(self._engine.model.snapshot()),
            show,
            "listing the cluster",
            self._limits.start,
            "the cluster cannot be listed",
        )
        self._webhooks.subscribe(self._api.url, self._engine.model.snapshot())
        if self._plain:
            for subscription in self._webhooks.subscribed:
                self._console.print(
                    f"Subscribed to {subscription}; the page shows it under Subscriptions", soft_wrap=True
                )

    def _listening(self) -> bool:
        states = [status.state for status in self._engine.source_status().values()]
        return bool(states) and all(state is SourceState.CONNECTED for state in states)

    def _published(self) -> int:
        return self._cloud.published + self._dcm.published

    def _is_ahead(self) -> bool:
        """Whether the simulated systems have to wait for the engine. Any of their threads may ask."""
        lag = self._published() - self._watch.committed("nova") - self._watch.committed("dcm")
        self._highest_lag = max(self._highest_lag, lag)
        return lag >= self._most_ahead

    def _has_published_all(self) -> bool:
        """Stop the cloud and the providers, and return whether they ended. The truth changes until then."""
        return all([self._cloud.stop(_FRAME), self._dcm.stop(_FRAME)])

    def _is_all_committed(self) -> bool:
        """Whether the engine committed what was published, and read the last row that the API wrote.

        That row may be the one that parked events wait for.
        """
        committed = self._watch.committed("nova") >= self._cloud.published and self._dcm.settled()
        return committed and self._watch.is_at_head()

    def _is_over(self) -> bool:
        return self._length is not None and time.monotonic() - self._began >= self._length

    def _suggested_commands(self) -> list[str]:
        """Commands that show the model in another shell."""
        client = f"{_typed('watcher-sync')} --endpoint {self._api.url}"
        commands = [f"{client} entity list instance", f"{client} event tail --follow"]
        return [*commands, f"{client} subscription list"] if self._webhooks.config else commands

    def _manage(self) -> str:
        return f"{_typed('watcher-sync-manage')} --config-file {self._config}"

    # The engine

    def _run_engine(self) -> None:
        try:
            self._engine.run()
        except Exception as exc:  # noqa: BLE001 - the edge of its thread: _supervise reports it
            self._engine_failure = exc

    def _stop_engine(self) -> None:
        seconds = deadline(self._limits.stop)
        self._engine.stop(seconds)
        self._thread.join(seconds + 2)
        if self._thread.is_alive():
            raise DemoFailed(f"the engine does not stop within {seconds:.0f} s; see {self._folder / 'demo.log'}")
        if self._engine_failure is not None:
            raise DemoFailed(f"the engine has ended: {self._engine_failure}")


def _typed(name: str) -> str:
    """One of our executables, as it can be typed here."""
    beside = pathlib.Path(sys.argv[0]).with_name(name)
    on_path = shutil.which(name)
    known = on_path is not None and pathlib.Path(on_path).resolve() == beside.resolve()
    return name if known else str(beside)


def _make_engine(conf: cfg.ConfigOpts, dcm: Dcm) -> Engine:
    store = open_store(conf, checked=False)
    schema.upgrade(store.database, store.tables)
    store.dispose()
    return assemble(conf, dcm.sources)
