# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync demo``: everything at work in one process, and the proof that the model is right.

A simulated cloud publishes what Nova would, on a bus in memory. The engine, the real one, listens
through oslo.messaging and commits to SQLite. Some of the notifications come late, twice or broken. At
the end the tables are loaded back and compared with the cloud's own account, entity by entity and field
by field; the exit status is 0 only if there is no difference.

How it ends, step by step: the cloud begins nothing more and publishes what it has in hand; what is on
the bus is committed; the engine drains and stops; the tables are loaded; they are compared.

Threads: the cloud's, the engine's and those of its source; this one only looks, draws and waits.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from cliff.command import Command
from oslo_config import cfg
from rich.console import Console
from rich.live import Live

from watcher_sync.cmd import process
from watcher_sync.cmd.demo_screen import Figures, Screen, plain_line
from watcher_sync.engine import assembly
from watcher_sync.engine.engine import Engine
from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.model.changes import Outcome
from watcher_sync.sources.base import SourceState
from watcher_sync.storage import journal, schema
from watcher_sync.storage.database import translated
from watcher_sync.storage.quarantine import Quarantine
from watcher_sync.storage.store import Store
from watcher_sync.testing import live
from watcher_sync.testing.cloud import CloudSimulator
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.ledger import Truth

_CONFIG: Final = """\
# Written by watcher-sync demo.
[DEFAULT]
state_path = {state_path}

[engine]
enabled_sources = nova

[source_nova]
driver = oslo_messaging
transport_url = {transport_url}
exchange = nova
topics = versioned_notifications
"""

_FRAME: Final = 0.25
_LINE: Final = 2.0
_START_TIMEOUT: Final = 30.0
_STOP_TIMEOUT: Final = 10.0
_MOST_AHEAD: Final = 2000
_SHOWN: Final = 40
_DIFFERENCES: Final = 10

_NOT_COMPARED: Final = ("last_heard",)
"""Written at most once a minute, and not for events that no handler asks for."""


class DemoFailed(WatcherSyncError):
    """The demo could not be brought to its end."""


class Demo(Command):
    """See it work: a simulated cloud, the engine and the model, all in this process."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add("--for", dest="length", type=_positive, metavar="SECONDS", help="end after so long; else with Ctrl-C")
        add("--hosts", type=int, default=40, metavar="N", help="compute hosts of the cloud (default %(default)s)")
        add("--instances", type=int, default=300, metavar="N", help="instances of the cloud (default %(default)s)")
        add("--rate", type=float, default=150.0, metavar="N",
            help="notifications a second once booted, 0 = as many as possible (default %(default)g)")  # fmt: skip
        add("--seed", type=int, default=7, metavar="N", help="another seed is another history (default %(default)s)")
        add("--poison", type=_percent, default=1.0, metavar="PERCENT",
            help="broken messages that belong into quarantine (default %(default)g)")  # fmt: skip
        add("--disorder", action=argparse.BooleanOptionalAction, default=True,
            help="deliver some notifications late and some twice (default: yes)")  # fmt: skip
        add("--plain", action="store_true", help="lines instead of the live picture, as when stdout is no terminal")
        add("--state-path", metavar="DIR", help="keep database, configuration and log in this folder")
        add("--keep", action="store_true", help="do not remove the temporary folder")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run it; the exit status."""
        return process.run(lambda _: run(parsed_args), [])


def run(options: argparse.Namespace) -> int:
    """The whole demo.

    :returns: 0 when the model equals the truth, else 1.
    :raises ConfigError: when the options cannot work.
    :raises DemoFailed: when it could not be brought to its end.
    """
    try:
        simulator = CloudSimulator(seed=options.seed, hosts=options.hosts, instances=options.instances)
    except ValueError as exc:
        raise ConfigError(f"--hosts: {exc}") from None
    if options.instances < 0 or options.rate < 0:
        raise ConfigError("--instances and --rate must not be negative")
    with _folder(options) as (folder, keep), _interruption() as interrupted:
        demo = _Demo(options, folder, simulator)
        try:
            status = demo.judge(demo.play(interrupted))
        except WatcherSyncError:
            keep.set()
            raise
        if status:
            keep.set()
        return status


class _Demo:
    """One run: what is started, watched, ended and judged."""

    def __init__(self, options: argparse.Namespace, folder: pathlib.Path, simulator: CloudSimulator) -> None:
        self._length: float | None = options.length
        terminal = Console().is_terminal
        self._console = Console(highlight=False, soft_wrap=not terminal)
        self._plain = options.plain or not terminal
        self._folder = folder
        self._kept = bool(options.state_path or options.keep)
        self._config = folder / "demo.conf"
        self._conf = _configure(folder, self._config)
        self._engine = _make_engine(self._conf)
        self._reader = assembly.open_store(self._conf)
        self._watch = _Watch(self._engine, self._reader)
        self._cloud = live.LiveCloud(
            simulator,
            rate=options.rate or None,
            poison_percent=options.poison,
            disorder=options.disorder,
            held_back=lambda: self._cloud.published - self._watch.committed() > _MOST_AHEAD,
            seed=options.seed,
        )
        self._engine_failure: Exception | None = None
        self._thread = threading.Thread(target=self._run_engine, name="engine", daemon=True)
        self._began = time.monotonic()

    def play(self, interrupted: threading.Event) -> Truth:
        """Run engine and cloud until it is time, then bring both to their end."""
        with self._shown() as show:
            self._thread.start()
            self._wait(self._listening, show, "starting", _START_TIMEOUT, "the source does not connect")
            self._cloud.start()
            while not interrupted.wait(_FRAME) and not self._is_over():
                show("the cloud boots" if not self._cloud.booted else "the cloud lives")
                self._look_after()
            self._cloud.stop(_STOP_TIMEOUT)
            self._look_after()
            self._wait(
                lambda: self._watch.committed() >= self._cloud.published,
                show,
                "draining",
                _STOP_TIMEOUT,
                "not everything that was published is committed",
            )
            show("drained", last=True)
        self._seconds = time.monotonic() - self._began
        self._stop_engine()
        return self._cloud.truth()

    def judge(self, truth: Truth) -> int:
        """Load the tables, compare, say what came out; the exit status."""
        say = self._console.print
        snapshot = self._reader.load().snapshot()
        differences = list(compare(truth, snapshot, ignored=_NOT_COMPARED))
        entities = {kind: snapshot.count(kind) for kind in snapshot.kinds if snapshot.count(kind)}
        outcomes = self._engine.tally.as_dict()
        quarantined = Quarantine(self._reader).count()
        say(f"Published  {self._cloud.published:,} messages in {self._seconds:.0f} s; {self._cloud.repeated:,} of them "
            f"came twice, {self._cloud.poisoned:,} were broken")  # fmt: skip
        say("Committed  " + ", ".join(f"{name} {n:,}" for name, n in outcomes.items() if name != "read" and n))
        say(f"Model      {', '.join(f'{kind} {n:,}' for kind, n in entities.items())}; journal at seq "
            f"{snapshot.generation:,}; {quarantined:,} different messages in quarantine")  # fmt: skip
        if differences:
            say(f"[bold red]Not equal[/]  {len(differences):,} differences between the model and the cloud:")
            for difference in differences[:_DIFFERENCES]:
                self._console.print(f"  {difference}", markup=False)
        else:
            say(f"[bold green]Equal[/]      {sum(entities.values()):,} entities, {_values(truth):,} values: "
                "the tables, loaded back, hold exactly what the cloud is")  # fmt: skip
        if self._kept or differences:
            self._console.print(
                f"Kept       {self._folder}; look with {' '.join(self._manage())} --help", soft_wrap=True
            )
        return 1 if differences else 0

    # Watching

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Callable[..., None]]:
        """The function that shows the figures in a phase, as often as it is worth it."""
        if not self._plain:
            screen = Screen(manage=self._manage(), database=str(self._folder / "watcher-sync.sqlite"))
            with Live(screen, console=Console(highlight=False), auto_refresh=False, screen=True) as picture:

                def draw(phase: str, *, last: bool = False) -> None:
                    screen.figures = self._figures(phase)
                    picture.refresh()

                yield draw
            return
        for what in ("journal tail", "model dump --kind instance", "quarantine list"):
            self._console.print(f"Look at it with: {' '.join(self._manage())} {what}", soft_wrap=True)
        due = 0.0

        def tell(phase: str, *, last: bool = False) -> None:
            nonlocal due
            if last or time.monotonic() >= due:
                due = time.monotonic() + _LINE
                self._console.print(plain_line(self._figures(phase)))
                sys.stdout.flush()

        yield tell

    def _figures(self, phase: str) -> Figures:
        return self._watch.figures(
            elapsed=time.monotonic() - self._began, length=self._length, phase=phase, published=self._cloud.published
        )

    def _wait(
        self, condition: Callable[[], bool], show: Callable[..., None], phase: str, timeout: float, trouble: str
    ) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            self._look_after()
            if time.monotonic() > deadline:
                raise DemoFailed(f"{trouble} within {timeout:.0f} s; see {self._folder / 'demo.log'}")
            show(phase)
            time.sleep(0.05)

    def _look_after(self) -> None:
        """:raises DemoFailed: when the engine or the cloud has come to an end by itself."""
        if self._engine_failure is not None or not self._thread.is_alive():
            raise DemoFailed(f"the engine has ended: {self._engine_failure or 'without an error'}")
        if self._cloud.failure is not None:
            raise DemoFailed(f"the simulated cloud has ended: {self._cloud.failure!r}")

    def _listening(self) -> bool:
        states = [status.state for status in self._engine.source_status().values()]
        return bool(states) and all(state is SourceState.CONNECTED for state in states)

    def _is_over(self) -> bool:
        return self._length is not None and time.monotonic() - self._began >= self._length

    def _manage(self) -> list[str]:
        """The command to look with, as it can be typed here."""
        beside = pathlib.Path(sys.argv[0]).with_name("watcher-sync-manage")
        on_path = shutil.which(beside.name)
        known = on_path is not None and pathlib.Path(on_path).resolve() == beside.resolve()
        return [beside.name if known else str(beside), "--config-file", str(self._config)]

    # The engine

    def _run_engine(self) -> None:
        try:
            self._engine.run()
        except Exception as exc:  # noqa: BLE001 - the edge of its thread: _look_after reports it
            self._engine_failure = exc

    def _stop_engine(self) -> None:
        self._engine.stop(_STOP_TIMEOUT)
        self._thread.join(_STOP_TIMEOUT + 2)
        if self._thread.is_alive():
            raise DemoFailed(f"the engine does not stop within {_STOP_TIMEOUT:.0f} s")
        if self._engine_failure is not None:
            raise DemoFailed(f"the engine has ended: {self._engine_failure}")


class _Watch:
    """Looks at the engine and its database, as anybody beside it may."""

    def __init__(self, engine: Engine, reader: Store) -> None:
        self._engine = engine
        self._reader = reader
        self._quarantine = Quarantine(reader)
        self._last_quarantined = 0
        self._quarantined: collections.deque[dict[str, Any]] = collections.deque(maxlen=_SHOWN)
        self._count = 0
        self._samples: collections.deque[tuple[float, int]] = collections.deque(maxlen=8)

    def committed(self) -> int:
        """Events that are through; one that is parked counts when it is taken up."""
        tally = self._engine.tally
        return tally.as_dict()["read"] - tally.total(Outcome.PARKED)

    def figures(self, *, elapsed: float, length: float | None, phase: str, published: int) -> Figures:
        """All that is to be seen now."""
        committed = self.committed()
        self._samples.append((elapsed, committed))
        (then, before), (now, _) = self._samples[0], self._samples[-1]
        snapshot = self._engine.model.snapshot()
        return Figures(
            elapsed=elapsed,
            length=length,
            phase=phase,
            rate=(committed - before) / (now - then) if now > then else 0.0,
            published=published,
            committed=committed,
            outcomes=self._engine.tally.as_dict(),
            counts={kind: snapshot.count(kind) for kind in sorted(snapshot.kinds)},
            seq=snapshot.generation,
            sources=self._engine.source_status(),
            changes=self._changes(),
            quarantined=self._look_into_quarantine(),
            quarantine=list(self._quarantined),
        )

    def _changes(self) -> list[journal.JournalRow]:
        with translated(), self._reader.engine.connect() as connection:
            head = journal.read_head(connection, self._reader.tables)
            return journal.read_since(connection, self._reader.tables, max(0, head - _SHOWN), _SHOWN)

    def _look_into_quarantine(self) -> int:
        while page := self._quarantine.page(after=self._last_quarantined):
            self._last_quarantined = page[-1]["id"]
            self._quarantined.extend(page)
        return self._quarantine.count()


def _configure(folder: pathlib.Path, file: pathlib.Path) -> cfg.ConfigOpts:
    text = _CONFIG.format(state_path=str(folder).replace("$", "$$"), transport_url=live.TRANSPORT_URL)
    file.write_text(text, encoding="utf-8")
    argv = ["--config-file", str(file), "--log-file", str(folder / "demo.log")]
    return process.make_conf(argv, prog="watcher-sync demo")


def _make_engine(conf: cfg.ConfigOpts) -> Engine:
    store = assembly.open_store(conf, checked=False)
    schema.upgrade(store.engine, store.tables)
    store.engine.dispose()
    return assembly.assemble(conf)


@contextlib.contextmanager
def _folder(options: argparse.Namespace) -> Iterator[tuple[pathlib.Path, threading.Event]]:
    """Where the demo keeps its files, removed at the end unless the event is set, as when something failed."""
    keep = threading.Event()
    if options.state_path:
        folder = pathlib.Path(options.state_path).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"--state-path {options.state_path}: {exc.strerror}") from None
        if (folder / "watcher-sync.sqlite").exists():
            raise ConfigError(f"--state-path {options.state_path}: there is a database already; the demo begins anew")
        yield folder, keep
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ws-demo-"))
    try:
        yield folder, keep
    finally:
        if not (options.keep or keep.is_set()):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _interruption() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM; the second one is a KeyboardInterrupt."""
    interrupted = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _values(truth: Truth) -> int:
    return sum(len(row) - len(row.keys() & set(_NOT_COMPARED)) for rows in truth.values() for row in rows.values())


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return value
