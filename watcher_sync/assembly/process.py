# SPDX-License-Identifier: Apache-2.0
"""Start and end of every executable: threads, configuration, logging, exit status."""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import faulthandler
import gc
import glob
import importlib.metadata
import io
import logging as stdlib_logging
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oslo_config import cfg
from oslo_log import log as logging
from oslo_reports import opts as reports
from oslo_service import backend

from watcher_sync.assembly import safe_logging
from watcher_sync.conf import cloud_account, files, keystone, opts, strict
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, DatabaseUnavailable, WatcherSyncError
from watcher_sync.plugins import read_group
from watcher_sync.storage.database import file_modes

if TYPE_CHECKING:
    import cotyledon

LOG = logging.getLogger(__name__)

T = TypeVar("T")

PROJECT = "watcher-sync"

_SWITCH_INTERVAL_SECONDS = 0.002

_LEAST_DESCRIPTORS: Final = 64
"""An engine with one source uses 30."""

_LIBRARY_LOG_LEVELS = ("amqp=WARN", "amqplib=WARN", "sqlalchemy=WARN", "oslo.messaging=WARN", "oslo_messaging=WARN",
          "oslo_service=WARN", "stevedore=WARN", "alembic=WARN", "futurist=WARN", "cotyledon=WARN",
          "kombu=WARN", "keystoneauth.identity=ERROR")  # fmt: skip


def prepare() -> None:
    """Set up the interpreter. Call it before any other function.

    * New files have the mode 0640 at most.
    * oslo.service uses native threads when a library imports it. Its own import is slow.
    * Threads switch after 2 ms. A thread that has its answer from the database must not wait long for the interpreter.
    * The garbage collector runs rarely. Tens of thousands of events a second come and go, without reference cycles.
      With the default thresholds the collector would take a fifth of the time.
    * The memory of large bodies returns to the system.
    * A fatal signal, such as SIGSEGV, writes the stacks of all threads to stderr.
    """
    _configure_allocator()
    file_modes.restrict_umask()
    backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    if not faulthandler.is_enabled():
        with contextlib.suppress(AttributeError, OSError, ValueError):  # stderr has no file
            faulthandler.enable()


def use_threads() -> None:
    """Have oslo.service load its native threads. It raises if a plugin of the configuration chose another backend."""
    backend.init_backend(backend.BackendType.THREADING)


def make_conf(
    argv: Sequence[str],
    *,
    prog: str,
    cli_opts: Sequence[cfg.Opt] = (),
    log_to_stderr_only_warnings: bool = False,
) -> cfg.ConfigOpts:
    """Read and check the configuration of a process, and set up logging.

    :param argv: the command line without the program.
    :param log_to_stderr_only_warnings: log warnings only, to stderr, because stdout has the result of a command.
    :raises ConfigError: a file or an option is wrong, or the process may open too few files; the message names it.
    """
    _check_descriptors()
    conf = _unread(cli_opts)
    _read(conf, argv, prog)
    if log_to_stderr_only_warnings:
        # Without this option oslo.log writes to stdout, which has the result.
        conf.set_default("use_stderr", True)
        if not conf.debug:
            conf.set_default("default_log_levels", [*_LIBRARY_LOG_LEVELS, "watcher_sync=WARN"])
    if conf.log_config_append:
        files.read_text("DEFAULT", "log_config_append", conf.log_config_append)
    try:
        logging.setup(conf, PROJECT)
    except OSError as exc:
        raise ConfigError(f"[DEFAULT] log_file or log_dir: {exc.filename}: {exc.strerror}") from None
    except logging.LogConfigError as exc:
        raise ConfigError(f"[DEFAULT] log_config_append: {exc}") from None
    _restrict_log_files()
    safe_logging.install()
    return conf


def _check_descriptors() -> None:
    """Refuse a limit with which the master could not even start its worker, and would wait without one.

    :raises ConfigError: the process may open too few files.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_DESCRIPTORS:
        raise ConfigError(
            f"the limit of open files is {limit}, and {_LEAST_DESCRIPTORS} is the least: raise LimitNOFILE or ulimit -n"
        )


def check_again(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Check and return the current content of the files of ``conf``; ``conf`` itself does not change.

    oslo.config does not validate the values when it mutates the options. A wrong value would raise at its next use.

    :raises ConfigError: a file or an option is wrong; the message names it.
    """
    arguments = [f"--config-file={name}" for name in conf.config_file or ()]
    arguments += [f"--config-dir={name}" for name in conf.config_dir or ()]
    checked = _unread(())
    _read(checked, arguments, conf.prog)
    return checked


def reload(
    conf: cfg.ConfigOpts, check: Callable[[cfg.ConfigOpts], None] = lambda _conf: None, *, is_requested: bool = True
) -> list[str] | None:
    """Apply all changed mutable options, or none if a file is wrong. The outcome is logged.

    :param check: raises a :class:`ConfigError` if an option of the files cannot work.
    :param is_requested: whether an operator waits for the outcome, also if nothing changed.
    :returns: ``group.option`` of each changed option; None: a file is wrong.
    """
    try:
        check(check_again(conf))
    except ConfigError as exc:
        LOG.error("The configuration was not reloaded: %s", exc)
        return None
    changed = conf.mutate_config_files()
    # Empties the cache: other threads have stored values of before, while the files were read.
    conf.register_opts([])
    safe_logging.install()
    names = [f"{group or 'DEFAULT'}.{option}" for group, option in changed]
    if names or is_requested:
        LOG.info("Reloaded the configuration: %s", ", ".join(names) or "nothing changed")
    return names


def reload_if_written(conf: cfg.ConfigOpts, since: float) -> None:
    """Reload the configuration if one of its files was written during the start, when SIGHUP was ignored.

    :param since: time of the start, in seconds since the epoch.
    """
    paths = [*(conf.config_file or ()), *(conf.config_dir or ())]
    paths += [path for folder in conf.config_dir or () for path in glob.glob(f"{glob.escape(folder)}/*.conf")]
    if any(os.path.exists(path) and os.stat(path).st_mtime >= since - 1 for path in paths):
        reload(conf, is_requested=False)


def run(main: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run the main function of an executable. An error becomes an exit status and one line on stderr.

    :returns: 0 success, 1 failure, 2 wrong usage or configuration, 130 interrupted.
    """
    try:
        return main(list(sys.argv[1:] if argv is None else argv)) or 0
    except ConfigError as exc:
        print(f"error: {escaped(str(exc))}", file=sys.stderr)
        return 2
    except WatcherSyncError as exc:
        print(f"error: {escaped(str(exc))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def when_the_database_answers(
    conf: cfg.ConfigOpts, make: Callable[[], T], *, wait: Callable[[float], None] = time.sleep
) -> T:
    """Return what a function makes, as soon as the database answers.

    A service and its database may start in any order, such as after a power failure. The attempts are
    ``[database] retry_interval`` seconds apart. ``max_retries`` limits those after the first one; -1 is no limit.

    :param make: connects to the database.
    :raises DatabaseUnavailable: the last attempt failed, too.
    """
    retries, interval = int(conf.database.max_retries), float(conf.database.retry_interval)
    failures = 0
    while True:
        try:
            return make()
        except DatabaseUnavailable as exc:
            if failures == retries:
                raise
            if failures == 0:
                limit = "without a limit" if retries < 0 else f"{retries} times"
                LOG.warning("The database is unavailable: %s; retrying %s, every %g s", exc, limit, interval)
        failures += 1
        wait(interval)


_OF_WORKERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that a worker process handles."""


def make_manager(stop_seconds: int) -> cotyledon.ServiceManager:
    """A manager whose workers are forks of this process, which the default of multiprocessing is before Python 3.14.

    They have what was prepared before the fork, and the signals that :func:`run_workers` holds back.

    :param stop_seconds: the time that a worker has to end.
    """
    import multiprocessing  # only masters have workers

    import cotyledon

    fork = multiprocessing.get_context("fork")
    return cotyledon.ServiceManager(graceful_shutdown_timeout=stop_seconds, mp_context=fork)


def run_workers(manager: cotyledon.ServiceManager, in_hand: Callable[[], str] | None = None) -> None:
    """Run the worker processes of a manager until SIGTERM. Each end that nothing asked for is logged.

    A signal that comes after the fork, before the worker has its handlers, waits for :func:`accept_signals`. Without
    this the worker would lose it, and run on. The master kills workers that do not end in time.

    :param in_hand: returns what the ended process had in hand.
    """

    def report(_service: Any, worker: int, status: int) -> None:
        how = f"was ended by {_signal_name(-status)}" if status < 0 else f"exited with status {status}"
        what = f"; in hand: {in_hand()}" if in_hand is not None else ""
        LOG.error("Worker process %d %s and is started again%s", worker, how, what)

    import psutil  # only masters have children

    def give_up(_number: int, _frame: Any) -> None:
        LOG.error("The worker processes did not end in time; killing them")
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        os._exit(1)

    manager.register_hooks(on_dead_worker=report)
    # cotyledon's own handler has no effect while the master waits for its workers.
    signal.signal(signal.SIGALRM, give_up)
    master = os.getpid()

    def hold_back() -> None:
        # The workers inherit the hooks. What a plugin starts there has the signals as they are.
        if os.getpid() == master:
            signal.pthread_sigmask(signal.SIG_BLOCK, _OF_WORKERS)

    def accept() -> None:
        if os.getpid() == master:
            accept_signals()

    os.register_at_fork(before=hold_back, after_in_parent=accept)
    manager.run()


def accept_signals() -> None:
    """Accept the signals that were held back since the fork. Call it in a worker process that has its handlers."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_WORKERS)


def _signal_name(number: int) -> str:
    """The name of a signal, or its number: most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _restrict_log_files() -> None:
    """Restrict the modes of the log files and of their rotated predecessors."""
    for handler in stdlib_logging.getLogger().handlers:
        if isinstance(handler, stdlib_logging.FileHandler):
            for path in (handler.baseFilename, *glob.glob(f"{glob.escape(handler.baseFilename)}.*")):
                file_modes.restrict(path)


def _unread(cli_opts: Sequence[cfg.Opt]) -> cfg.ConfigOpts:
    """A configuration with registered options and without values."""
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    logging.set_defaults(default_log_levels=[*_LIBRARY_LOG_LEVELS])
    opts.register_opts(conf)
    opts.register_database(conf)
    reports.set_defaults(conf)
    conf.register_cli_opts(cli_opts)
    return conf


def _read(conf: cfg.ConfigOpts, argv: Sequence[str], prog: str) -> None:
    """Read and check the files.

    :raises ConfigError: a file or an option is wrong; the message names it.
    """
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            conf(list(argv), project=PROJECT, prog=prog, version=f"{prog} {importlib.metadata.version(PROJECT)}")
        if keystone.is_configured(conf):
            keystone.register_opts(conf)
        for section in set(conf.list_all_sections()).intersection(opts.sections_with_account()):
            cloud_account.register_auth_opts(conf, section)
        strict.check(conf)
        _read_all(conf)
    except cfg.Error as exc:
        raise ConfigError(" ".join(str(exc).split())) from None
    except OSError as exc:
        raise ConfigError(str(exc)) from None
    except UnicodeDecodeError as exc:
        near = exc.object[max(0, exc.start - 20) : exc.end]
        raise ConfigError(f"{_file_read_by(exc)} is not UTF-8 near {near!r}") from None
    except SystemExit as exc:
        text = " ".join(messages.getvalue().split())
        if exc.code == 1:  # a file has a wrong value for an option of the command line
            raise ConfigError(text) from None
        if exc.code == 2:
            raise ConfigError(_usage_error(text.partition(" error: ")[2], prog)) from None
        raise
    sys.stderr.write(messages.getvalue())


def _file_read_by(error: Exception) -> str:
    """The file that oslo.config was reading. Its errors name it, but those of the decoding do not."""
    objects = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((str(each.filename) for each in objects if isinstance(each, cfg.ConfigParser)), "a configuration file")


def _usage_error(text: str, prog: str) -> str:
    """The error of a wrong command line, with a hint.

    :param text: what argparse says.
    """
    given, choose, known = text.partition("invalid choice: ")[2].partition(" (choose from ")
    near = difflib.get_close_matches(given.strip("'"), known.rstrip(")").replace("'", "").split(", "), n=1)
    if choose and near:
        return f"there is no {given}; did you mean {near[0]}?"
    is_late = text.startswith("unrecognized arguments: --config-")
    return f"{text}; {'it precedes the command' if is_late else f'see {prog} --help'}"


def _read_all(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: an option has a wrong value."""
    read_group(conf, "DEFAULT")
    for name, value in conf.items():
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            read_group(value, name)


_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_MMAP_THRESHOLD_BYTES: Final = 262_144
_ARENAS: Final = 2
"""The interpreter's lock lets one thread allocate at a time, so one arena for each thread only wastes memory."""


def _configure_allocator() -> None:
    """Have the memory of large bodies return to the system. Call it before other threads run.

    glibc raises its threshold for memory mappings, up to 32 MiB, when a mapped block is freed. From then on large
    blocks come from the heap, and small blocks that outlive them prevent their return. An engine that had read bodies
    of 500 kB used 85 MB more than before; with a fixed threshold it uses 58 MB more.

    Other C libraries do not raise the threshold and have no ``mallopt``: nothing is done there.

    Source: mallopt(3), "M_MMAP_THRESHOLD" and "M_ARENA_MAX".
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
