# SPDX-License-Identifier: Apache-2.0
"""The example plugins work as their READMEs say, installed beside the package, with no change to it.

The tests build the project and the plugins as wheels and install them into a separate environment. So they also prove
that the wheel is complete, with its entry points and migrations.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.functional.reconcile.test_capacity_engine import SERVICE
from tests.source_copy import ROOT, copy_source
from tests.waiting import deadline, wait_until
from watcher_sync.testing.dcm import publisher

Printed = dict[str, str]

EXAMPLES = ROOT / "doc" / "examples"
PLUGIN = EXAMPLES / "watcher-sync-example-plugin"
SITE = EXAMPLES / "watcher-sync-example-site"

_EACH = """
import contextlib, io, json, sys
import watcher_sync
from watcher_sync.cmd import manage
printed = {{"package": watcher_sync.__file__}}
for name, argv in {argvs!r}.items():
    sys.argv = ["watcher-sync-manage", *argv]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)) as out:
        try:
            manage.main()
        except SystemExit as end:
            assert not end.code, (argv, end.code)
    printed[name] = out.buffer.getvalue().decode()
json.dump(printed, sys.stdout)
"""
"""The program of :meth:`Installed.manage_each`."""


class Installed:
    """An environment with the project and the plugins, and a configuration with an SQLite database."""

    def __init__(self, folder: Path, *plugins: Path) -> None:
        self.folder = folder
        self.plugins = plugins or (PLUGIN,)
        self.environment = folder / "venv"
        self.config = folder / "watcher-sync.conf"
        # An operator's shell: nothing of the source tree is on the path.
        self.variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def install(self) -> None:
        source = copy_source(self.folder / "source")
        venv.create(self.environment, with_pip=False)
        self.add(source, *(source / plugin.relative_to(ROOT) for plugin in self.plugins))
        # The libraries that the project needs are those of the test run. A path line reads no .pth files
        # of that folder, so an editable installation there stays out of the way.
        own = sysconfig.get_path("purelib", "venv", {"base": str(self.environment)})
        libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        Path(own, "libraries.pth").write_text("".join(f"{path}\n" for path in sorted(libraries)))
        self.config.write_text(f"[DEFAULT]\nstate_path = {self.folder}\n")

    def add(self, *projects: Path) -> None:
        """Build these projects and install them."""
        pip, wheels = (sys.executable, "-m", "pip"), self.folder / f"wheels-{projects[0].name}"
        # What builds them is in this environment: to install it once for each wheel takes longer than the builds.
        self.run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels, *projects)
        built = sorted(wheels.glob("*.whl"))
        assert len(built) == len(projects)
        self.run(*pip, "--python", self.python, "install", "--quiet", "--no-deps", "--no-compile", *built)

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.environment / "bin" / "python"

    def configure(self, text: str) -> None:
        """Append to the configuration."""
        with self.config.open("a") as config:
            config.write(text)

    def manage(self, *arguments: object) -> str:
        """What ``watcher-sync-manage`` prints."""
        manage = self.environment / "bin" / "watcher-sync-manage"
        return self.run(manage, "--config-file", self.config, *arguments)

    def manage_each(self, **commands: Sequence[object]) -> Printed:
        """What each of these commands prints, and where the package is. One process runs them, for its imports."""
        argvs = {name: ["--config-file", str(self.config), *map(str, command)] for name, command in commands.items()}
        found: Printed = json.loads(self.run(self.python, "-c", _EACH.format(argvs=argvs)))
        return found

    def served(self, path: str) -> Any:
        """What a new API answers to a request without a token, and the summary of the operation in its document."""
        return json.loads(self.run(self.python, "-c", SERVED, path, f"--config-file={self.config}"))

    def checked(self, *options: object) -> dict[str, str]:
        """Check of ``watcher-sync-status upgrade check`` -> its details."""
        status = self.environment / "bin" / "watcher-sync-status"
        command = [status, "--config-file", self.config, *options, "upgrade", "check", "--json"]
        done = subprocess.run(
            [*map(str, command)], env=self.variables, capture_output=True, text=True, timeout=deadline(60), check=False
        )
        return {each["check"]: each["details"] for each in json.loads(done.stdout)["checks"]}

    @contextlib.contextmanager
    def running(self, program: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of an executable that runs; its log is ``<program>.log``."""
        errors = self.folder / f"{program}.log"
        command = [self.environment / "bin" / program, "--config-file", self.config]
        with errors.open("wb") as file:
            process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=file, stderr=file)
        try:
            yield process
            process.terminate()
            assert process.wait(deadline(30)) == 0, errors.read_text()
        finally:
            process.kill()
            process.wait()

    def run(self, *command: object) -> str:
        """What a command prints; it has to succeed."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=deadline(300),
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("plugin"), PLUGIN, SITE)
    installed.install()
    installed.configure("[rooms]\nmax_watts = 800000\ninterval = 0.1\n[api]\nauth_strategy = noauth\n")
    installed.manage("db_sync")
    return installed


@pytest.fixture(scope="module")
def printed(installed: Installed) -> Printed:
    """What the installed commands print, one after the other."""
    return installed.manage_each(
        handlers=["handlers"],
        replay=["replay", "-f", "json", PLUGIN / "events.jsonl"],
        racks=["model", "dump", "--kind", "rack"],
        quarantine=["quarantine", "list"],
    )


def test_the_patterns_of_an_installed_plugin_are_in_the_dispatch_table(printed: Printed) -> None:
    table = printed["handlers"].splitlines()
    for pattern in ("rack.power.*", "rack.power.test", "rack.removed"):
        (line,) = [line for line in table if pattern in line.split()]
        assert "racks" in line
    assert any("instance.create.end" in line and "nova" in line for line in table)


def test_events_of_a_plugins_dialect_end_in_the_plugins_kind_whatever_their_order(printed: Printed) -> None:
    counts = json.loads(printed["replay"])
    del counts["seconds"]
    assert counts == {
        "read": 9,
        "applied": 5,
        "stale": 1,
        "duplicate": 1,
        "ignored": 1,
        "parked": 0,
        "quarantined": 1,
    }

    racks = [json.loads(line) for line in printed["racks"].splitlines()]
    assert racks == [
        {"id": "r1", "room": "1", "power": "off", "watts": 0},
        {"id": "r2", "room": "1", "power": "on", "watts": 3500},
    ]

    assert "watts" in printed["quarantine"]


def test_the_package_that_runs_is_the_installed_one_and_not_the_source_tree(
    installed: Installed, printed: Printed
) -> None:
    assert Path(printed["package"]).is_relative_to(installed.environment)


def test_an_outlet_of_an_installed_plugin_publishes_the_model_and_then_each_change(
    installed: Installed, printed: Printed
) -> None:
    log = installed.folder / "changes.jsonl"
    installed.configure("[outlet_webhook]\nenabled = false\n[outlets]\nenabled = archive\n")
    installed.configure(f"[outlet_archive]\ndriver = file\nkinds = rack\npath = {log}\n")

    def changes() -> list[tuple[str, Any]]:
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        found = [json.loads(line)["data"] for line in lines if line.endswith(b"\n")]
        return [(each["change"], each.get("entity")) for each in found]

    with installed.running("watcher-sync-outlet") as process:
        wait_until(lambda: process.poll() is not None or ("snapshot_end", None) in changes())
        event = {"specversion": "1.0", "id": "a-99", "source": "/rooms/1", "type": "rack.power.on", "subject": "r1"}
        event |= {"time": "2026-03-02T08:00:00Z", "data": {"rack": "r1", "sequence": 99, "room": "1", "watts": 700}}
        (installed.folder / "more.jsonl").write_text(json.dumps(event))
        installed.manage("replay", installed.folder / "more.jsonl")
        wait_until(lambda: changes()[-1][0] == "updated")
    first, *racks, end, last = changes()
    assert (first, end) == (("snapshot_begin", None), ("snapshot_end", None))
    assert sorted(racks, key=lambda each: each[1]["id"]) == [
        ("snapshot", {"id": "r1", "room": "1", "power": "off", "watts": 0}),
        ("snapshot", {"id": "r2", "room": "1", "power": "on", "watts": 3500}),
    ]
    assert last == ("updated", {"id": "r1", "room": "1", "power": "on", "watts": 700})


SERVED = """
import json, sys
from falcon.testing import TestClient
from watcher_sync.assembly import api, process
path = sys.argv[1]
conf = process.make_conf(sys.argv[2:], prog="test", log_to_stderr_only_warnings=True)
client = TestClient(api.assemble(conf), headers={"Host": "localhost"})
document = client.simulate_get("/openapi.json").json
json.dump([client.simulate_get(path).json, document["paths"][path]["get"]["summary"]], sys.stdout)
"""


def test_an_extension_of_an_installed_plugin_has_a_noun_a_command_and_a_check(
    installed: Installed, printed: Printed
) -> None:
    answer, summary = installed.served("/v1/rooms")
    watts = answer["rooms"]["1"]
    assert summary == "Show what each room draws"
    assert installed.manage("rooms") == f"1 {watts}\n"
    silent = installed.folder / "silent.conf"
    silent.write_text("[rooms]\nmax_watts = 0\n")
    details = installed.checked("--config-file", silent)
    assert details["Power of rooms"] == "[rooms] max_watts is 0: no room raises an alarm."
    assert "rooms" in details["Extensions"].split(", ")
    policy = installed.run(
        installed.environment / "bin" / "python", "-c",
        "from watcher_sync.assembly.api import list_rules; print([rule.name for rule in list_rules()])",
    )  # fmt: skip
    assert "rooms:list" in policy


class LineServer:
    """Sends the lines after the number that a client names, and then those that are added."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.lines: list[bytes] = []
        self.asked: list[int] = []
        """The number that each client named."""
        self._client: socket.socket | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def add(self, line: bytes) -> None:
        """Send one line more."""
        self.lines.append(line)
        if self._client is not None:
            self._client.sendall(line + b"\n")

    def hang_up(self) -> None:
        """Close the connection in the middle of a line."""
        assert self._client is not None
        self._client.sendall(b'{"specversion": ')
        self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                after = int(client.makefile("rb").readline())
                client.sendall(b"".join(line + b"\n" for line in self.lines[after:]))
                self._client = client
                self.asked.append(after)


def power(number: int) -> bytes:
    data = {"rack": "r7", "sequence": number, "room": "2", "watts": number}
    event = {"specversion": "1.0", "id": f"e-{number}", "source": "/rooms/2", "type": "rack.power.on", "data": data}
    return json.dumps(event).encode()


def test_an_installed_driver_reads_on_after_a_lost_connection_and_after_a_restart(installed: Installed) -> None:
    server = LineServer()
    for number in (1, 2):
        server.add(power(number))
    server.add(b'"' + b"x" * 600_000 + b'"')  # too long for an event
    installed.configure(
        f"[engine]\nenabled_sources = pdu\n[source_pdu]\ndriver = lines\nhost = 127.0.0.1\nport = {server.port}\n"
    )
    log = installed.folder / "watcher-sync-engine.log"

    def watts() -> int | None:
        racks = map(json.loads, installed.manage("model", "dump", "--kind", "rack").splitlines())
        return next((rack["watts"] for rack in racks if rack["id"] == "r7"), None)

    with contextlib.closing(server):
        with installed.running("watcher-sync-engine") as engine:
            wait_until(lambda: engine.poll() is not None or watts() == 2)
            server.hang_up()
            wait_until(lambda: len(server.asked) == 2)
            server.add(power(4))
            wait_until(lambda: watts() == 4)
        lines = [line.partition("source pdu: ")[2] for line in log.read_text().splitlines() if "source pdu: " in line]
        assert lines == [
            "connected",
            "524289 bytes are more than the 524288 allowed (the event is in quarantine)",
            "disconnected: the server closed the connection; retrying",
            "connected",
        ]
        with installed.running("watcher-sync-engine"):
            wait_until(lambda: len(server.asked) == 3)
    assert server.asked == [0, 3, 4]
    assert "bytes are more than" in installed.manage("quarantine", "list")


def test_a_service_of_an_installed_plugin_works_while_the_engine_leads(installed: Installed) -> None:
    source = installed.folder / "room.json"
    source.write_bytes(power(900_000))
    installed.manage("replay", source)
    log = installed.folder / "watcher-sync-engine.log"
    with installed.running("watcher-sync-engine") as engine:
        wait_until(lambda: engine.poll() is not None or "and 800000 W are allowed" in log.read_text())
    (line,) = [line for line in log.read_text().splitlines() if "and 800000 W are allowed" in line]
    assert "Room 2 draws 900000 W" in line


def test_the_events_of_an_installed_service_type_are_instances_in_the_model(installed: Installed) -> None:
    recorded = installed.folder / "gpu.json"
    recorded.write_text(json.dumps(publisher.status("g-1", "free", service_type="gpu")))
    installed.configure("[handler_dcm]\nunknown_instance = create\n")
    installed.manage("replay", recorded)
    (found,) = map(json.loads, installed.manage("model", "dump", "--kind", "service_type_instance").splitlines())
    assert (found["service_type"], found["status"]) == ("gpu", "IDLE")


class Inventory(http.server.BaseHTTPRequestHandler):
    """The inventory of the site."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([{"name": "host-1", "cores": 64, "memory": 262144, "owner": "site"}]).encode())

    def log_message(self, *_arguments: object) -> None:
        pass


def test_an_installed_capacity_provider_reports_the_size_of_a_host(installed: Installed) -> None:
    (installed.folder / "host.json").write_text(json.dumps(SERVICE))
    installed.manage("replay", "--source", "nova", installed.folder / "host.json")
    with http.server.HTTPServer(("127.0.0.1", 0), Inventory) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        installed.configure("[reconcile_capacity]\nproviders = rack\n")
        installed.configure(f"[capacity_provider_rack]\nurl = http://127.0.0.1:{server.server_port}/\n")
        installed.manage("reconcile", "rack")
        server.shutdown()
    (host,) = map(json.loads, installed.manage("model", "dump", "--kind", "compute_node").splitlines())
    assert (host["id"], host["vcpus"], host["memory_mb"]) == ("host-1", 64, 262144)


def test_a_scaffolded_plugin_passes_its_tests_and_each_of_its_parts_works(installed: Installed) -> None:
    folder = installed.folder / "site-pumps"
    assert str(folder) in installed.manage("plugin", "scaffold", "site-pumps", "--directory", folder)
    installed.add(folder)
    tested = installed.run(installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "tests")
    assert " 29 passed" in f" {tested.splitlines()[-1]}", tested
    table = installed.manage("handlers").splitlines()
    assert [line.split()[1:2] for line in table if "site_pumps.changed" in line.split()] == [["site_pumps.changed"]]
    installed.manage("db_sync")
    assert "no site_pumps with a state" in installed.checked()["Sizes of site_pumps"]
    event = {"specversion": "1.0", "id": "p-1", "source": "/pumps", "type": "site_pumps.changed"}
    event |= {"data": {"id": "p1", "sequence": 1, "state": "running", "size": 3}}
    (installed.folder / "pumps.json").write_text(json.dumps(event))
    installed.manage("replay", installed.folder / "pumps.json")
    (found,) = map(json.loads, installed.manage("model", "dump", "--kind", "site_pumps").splitlines())
    assert found == {"id": "p1", "state": "running", "size": 3}
    answer, summary = installed.served("/v1/site_pumps_sizes")
    assert (answer, summary) == ({"sizes": {"running": 3}}, "Show how large the entities of each state are")
    assert installed.manage("site_pumps_sizes") == "running 3\n"
    assert "site_pumps" in installed.checked()["Extensions"].split(", ")
