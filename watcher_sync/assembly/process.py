# SPDX-License-Identifier: Apache-2.0
"""What every executable does first and last: configuration, logging, and errors in one line."""

from __future__ import annotations

import contextlib
import gc
import io
import sys
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log as logging
from oslo_reports import opts as reports
from oslo_service import backend

from watcher_sync.conf import opts, strict
from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.storage import database

PROJECT = "watcher-sync"

_QUIET = ("amqp=WARN", "amqplib=WARN", "sqlalchemy=WARN", "oslo.messaging=WARN", "oslo_messaging=WARN",
          "stevedore=WARN", "alembic=WARN", "futurist=WARN", "cotyledon=WARN", "kombu=WARN")  # fmt: skip


def prepare() -> None:
    """Before anything else: threads are native ones, they take turns soon, and the garbage collector looks seldom.

    The thread that waits for the database is not to wait for the interpreter as well, each time when an answer came.
    And events come and go by the ten thousand a second, without cycles; at the default thresholds the collector would
    spend a fifth of the time on looking at them.
    """
    backend.init_backend(backend.BackendType.THREADING)
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(0.002)  # seconds


def make_conf(
    argv: Sequence[str],
    *,
    prog: str,
    cli_opts: Sequence[cfg.Opt] = (),
    log_to_stderr_only_warnings: bool = False,
) -> cfg.ConfigOpts:
    """The configuration of one process, read, checked, with logging set up.

    :param argv: the command line without the program.
    :param log_to_stderr_only_warnings: for commands whose output a person reads.
    :raises ConfigError: when a file or an option is wrong; names it.
    """
    conf = _unread(cli_opts)
    _read(conf, argv, prog)
    if log_to_stderr_only_warnings:
        # oslo.log's own fallback is stdout, where the result goes.
        conf.set_default("use_stderr", True)
        if not conf.debug:
            conf.set_default("default_log_levels", [*_QUIET, "watcher_sync=WARN"])
    logging.setup(conf, PROJECT)
    return conf


def check_again(conf: cfg.ConfigOpts) -> None:
    """Whether the files that ``conf`` was made from can still be read, as they are now; ``conf`` is left alone.

    oslo.config takes up whatever it finds when it mutates, and a wrong value is met by whoever reads the option next.

    :raises ConfigError: when a file or an option is wrong; names it.
    """
    arguments = [f"--config-file={name}" for name in conf.config_file or ()]
    arguments += [f"--config-dir={name}" for name in conf.config_dir or ()]
    _read(_unread(()), arguments, conf.prog)


def run(main: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run an executable's main function and turn its errors into an exit status and one line on stderr.

    :returns: 0 done, 1 the work failed, 2 wrong usage or configuration.
    """
    try:
        return main(list(sys.argv[1:] if argv is None else argv)) or 0
    except ConfigError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    except WatcherSyncError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def _unread(cli_opts: Sequence[cfg.Opt]) -> cfg.ConfigOpts:
    """A configuration that has its options, and no values yet."""
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    logging.set_defaults(default_log_levels=[*_QUIET])
    opts.register_opts(conf)
    database.register_opts(conf)
    reports.set_defaults(conf)
    conf.register_cli_opts(cli_opts)
    return conf


def _read(conf: cfg.ConfigOpts, argv: Sequence[str], prog: str) -> None:
    """Read the files.

    :raises ConfigError: when a file or an option is wrong; names it.
    """
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            conf(list(argv), project=PROJECT, prog=prog)
        strict.check(conf)
        _read_all(conf)
    except cfg.Error as exc:
        raise ConfigError(" ".join(str(exc).split())) from None
    except OSError as exc:
        raise ConfigError(str(exc)) from None
    except SystemExit as exc:
        # How oslo.config says that a file has a wrong value of an option that the command line has too.
        if exc.code != 1:
            sys.stderr.write(told.getvalue())
            raise
        raise ConfigError(" ".join(told.getvalue().split())) from None
    sys.stderr.write(told.getvalue())


def _read_all(conf: cfg.ConfigOpts) -> None:
    """Read every option once, so that a wrong value is said now and not when it is first used."""
    for value in conf.values():
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            list(value.values())
