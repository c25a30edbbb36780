# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync demo`` as a person runs it, and what its exit status is worth."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.functional.executables import run_preloaded
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.demo import nats_server
from watcher_sync.extensions.webhooks import standard_webhooks
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.kubernetes import builders
from watcher_sync.testing.nova import notifications

BIN = pathlib.Path(sys.executable).parent
SMALL = ("--plain", "--hosts", "10", "--instances", "40", "--service-instances", "20")


def demo(*options: str, timeout: float = 170) -> subprocess.CompletedProcess[str]:
    """The demo, run to its end, at a width that wraps nothing."""
    return subprocess.run(
        [BIN / "watcher-sync", "demo", *options], capture_output=True, text=True, timeout=deadline(timeout), check=False
    )


def preloaded(*options: str) -> subprocess.CompletedProcess[str]:
    """The demo, where it ends before it begins."""
    return run_preloaded(
        "watcher-sync",
        ["demo", *options],
        program=str(BIN / "watcher-sync"),
        environment=os.environ,
        timeout=deadline(90),
    )


def manage(config: pathlib.Path, *command: str) -> str:
    done = run_preloaded(
        "watcher-sync-manage",
        ["--config-file", str(config), *command],
        program=str(BIN / "watcher-sync-manage"),
        environment=os.environ,
        timeout=deadline(120),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """Where the demo makes its folders. A run that fails leaves its own."""
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setenv("TMPDIR", str(folders))
    return folders


@pytest.fixture
def running(tmp_path: pathlib.Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a demo that goes on; what is left of it is killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [BIN / "watcher-sync", "demo", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            if "the cloud runs" in line:
                return process
            lines.append(line)
        raise AssertionError(f"the demo ended with {process.wait()}: {''.join(lines)}")

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_ends_in_time_with_a_model_equal_to_the_cloud_and_leaves_nothing_behind(
    running: Callable[..., subprocess.Popen[str]], folders: pathlib.Path
) -> None:
    """The page and the API answer meanwhile."""
    port = free_port()
    process = running("--for", f"{min(deadline(8), 20):.0f}", "--plain", "--port", str(port), "--poison", "5")
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/", timeout=deadline(60)) as page:
        assert "watcher_sync" in page.read().decode()
    wait_until(lambda: members_of_the_cluster(url).get("pod", {}).get("Running", 0) > 5, what="the pods that run")
    assert members_of_the_cluster(url).keys() == {"workload", "pod", "custom_object", "vnf_instance"}
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 0, output
    assert re.search(r"^Equal +\d", output, re.MULTILINE)
    assert re.search(r"came twice, [1-9]\d* were broken; DCM's came through NATS JetStream", output)
    assert re.search(r"^Model .*cluster 1, workload \d+, pod [1-9]\d+,.* vnf_instance 4\b", output, re.MULTILINE)
    assert re.search(r"^Cluster +[a-z ]+ [1-9]", output, re.MULTILINE)
    assert re.search(r"^Managers +[1-9]\d* operations, \d+ refused with 409", output, re.MULTILINE)
    assert re.search(r"^VNFs +amf: [A-Z_]+, workers .*, [1-7] pods$", output, re.MULTILINE)
    assert re.search(r"^Webhook +(amf-resources|server): .*; seq \d+, lag \d+\.\d\d s$", output, re.MULTILINE)
    assert re.search(r"^Webhooks +amf-resources: [1-9]\d* deliveries, [1-9]\d* resources in", output, re.MULTILINE)
    assert "rror" not in output
    assert "Warning" not in output
    assert list(folders.iterdir()) == []
    lags = [int(lag.replace(",", "")) for lag in re.findall(r"lag (?:was at most )?([\d,]+)[,\n]", output)]
    assert len(lags) > 3
    assert max(lags) <= 50


PROOF = re.compile(r"^Equal +\d", re.MULTILINE)


def test_behind_a_tee_that_ctrl_c_ends_the_proof_is_on_stderr(folders: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Ctrl-C reaches the whole process group. A double press is one wish."""
    log, errors = tmp_path / "log", tmp_path / "errors"
    shell = f"{shlex.join([str(BIN / 'watcher-sync'), 'demo', *SMALL])} 2>{errors} | tee {log}"
    process = subprocess.Popen(["bash", "-c", shell], start_new_session=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: log.exists() and "the cloud runs" in log.read_text(), 120)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
    process.wait(deadline(170))
    assert PROOF.search(errors.read_text())
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize("picture", [True, False])
def test_of_a_closed_terminal_the_proof_is_in_a_file_of_the_run(folders: pathlib.Path, *, picture: bool) -> None:
    """The shell of a terminal repeats its SIGHUP."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the run of the tests may ignore it
        os.execv(BIN / "watcher-sync", ["watcher-sync", "demo", *SMALL[picture:]])
    ended: list[int] = []

    def has_ended() -> bool:
        ended.extend(status for found, status in [os.waitpid(pid, os.WNOHANG)] if found)
        return bool(ended)

    try:
        seen = b""
        while b"the cloud runs" not in seen:
            seen += os.read(terminal, 65_536)
        os.close(terminal)
        os.kill(pid, signal.SIGHUP)
        wait_until(has_ended, 120, "the end of the demo")
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert ended == [0], [os.waitstatus_to_exitcode(status) for status in ended]
    (folder,) = folders.iterdir()
    assert PROOF.search((folder / "outcome").read_text())


def members_of_the_cluster(url: str) -> dict[str, dict[str, int]]:
    """What the topology says of the cluster: kind -> state -> how many."""
    with urllib.request.urlopen(f"{url}/v1/topology", timeout=deadline(60)) as answer:
        groups = {group["kind"]: group for group in json.load(answer)["groups"]}
    (edge,) = groups["cluster"]["entries"]
    assert edge["id"] == "edge"
    found: dict[str, dict[str, int]] = edge["members"]
    return found


@pytest.mark.parametrize(
    ("limits", "missed"),
    [
        ("start=0", "error: the source does not connect within 0 s; see "),
        pytest.param("answer=0", "error: the NATS server at nats://", marks=pytest.mark.rare),
        pytest.param("stop=0", "error: the life-cycle managers do not end within 0 s", marks=pytest.mark.rare),
        pytest.param("compare=0", "error: Nova cannot be listed: compute: no time is left", marks=pytest.mark.rare),
    ],
)
def test_a_limit_that_is_missed_is_one_line_that_names_it(limits: str, missed: str) -> None:
    script = f"""
        import sys
        from watcher_sync.assembly import process
        process.prepare()
        from watcher_sync.demo import demonstration
        from watcher_sync.demo.command import Demo
        from watcher_sync.demo.limits import Limits
        options = Demo(None, None).get_parser("demo").parse_args(sys.argv[1:])
        sys.exit(process.run(lambda _: demonstration.run(options, Limits({limits})), []))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), "--for", "1", *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline(170), check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith(missed), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stdout


@pytest.mark.rare
def test_every_other_seed_ends_equal_too_as_fast_as_it_goes() -> None:
    done = demo("--for", "4", "--seed", "4711", "--rate", "0", "--poison", "5", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.rare
def test_without_poison_and_disorder_nothing_is_stale_or_quarantined() -> None:
    done = demo("--for", "3", "--poison", "0", "--no-disorder", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    committed = next(line for line in done.stdout.splitlines() if line.startswith("Committed"))
    assert "duplicate" not in committed
    assert "quarantined" not in committed


@pytest.mark.rare
def test_the_model_has_the_cloud_before_the_first_notification() -> None:
    done = demo("--for", "1", "--no-kubernetes", *SMALL[:-1], "0")
    assert done.returncode == 0, done.stdout + done.stderr
    existed = "The model has compute_node 10, aggregate 4, instance 40 before the first notification\n"
    assert existed in done.stdout
    assert "0 events/s" in done.stdout[: done.stdout.index(existed)]
    assert "the cloud runs" not in done.stdout[: done.stdout.index(existed)]
    assert re.search(r"^Reconciled compute_node 10, .*; \d+ differences after the last message$", done.stdout, re.M)


@pytest.mark.rare
def test_an_instance_that_the_cloud_never_had_is_removed_by_the_reconciliation(
    running: Callable[..., subprocess.Popen[str]], tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "state"
    process = running("--state-path", str(state), *SMALL)
    intruder = "5f1e7c2a-93b0-4d4e-8f6a-0b6a2d9c4e11"
    file = tmp_path / "foreign.json"
    file.write_text(json.dumps(notifications.event("instance.create.end", uuid=intruder)))
    assert json.loads(manage(state / "demo.conf", "replay", "-f", "json", str(file)))["applied"] == 1
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 0, output
    journal = [
        json.loads(line) for line in manage(state / "demo.conf", "journal", "tail", "--limit", "100000").splitlines()
    ]
    assert [row["change"] for row in journal if row["id"] == intruder] == ["created", "deleted"]


@pytest.mark.rare
def test_without_nats_dcms_events_stay_in_the_process_and_disorder_does_no_harm() -> None:
    done = demo("--for", "4", "--seed", "12", "--rate", "0", "--poison", "5", "--no-nats", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DCM's came within this process" in done.stdout
    assert re.search(r"^Model .*service_type_instance [1-9]\d*\b", done.stdout, re.MULTILINE)


def test_without_a_nats_server_on_the_machine_the_demo_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beside the interpreter and on the path cannot be taken away, so this asks the finder itself."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert nats_server.find_server() is None


@pytest.mark.rare
def test_without_service_instances_there_is_no_dcm_and_without_kubernetes_no_cluster() -> None:
    done = demo("--for", "2", "--no-kubernetes", *SMALL[:-1], "0")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout[done.stdout.index("\nModel") :]
    for absent in ("service_type_instance", "cluster", "pod", "workload", "vnf_instance", "Managers"):
        assert absent not in summary


@pytest.mark.rare
def test_a_provider_that_dcm_never_had_and_a_pod_that_never_ran_are_found_and_fail_the_demo(
    running: Callable[..., subprocess.Popen[str]], tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "state"
    process = running("--state-path", str(state), *SMALL)
    file = tmp_path / "foreign.json"
    file.write_text(json.dumps(publisher.health(provider="intruder")))
    assert json.loads(manage(state / "demo.conf", "replay", "-f", "json", str(file)))["applied"] == 1
    pod = builders.pod("intruder", phase="Running")
    pod["metadata"] |= {"uid": "intruder-1", "resourceVersion": "1"}
    file.write_text(json.dumps({"type": "ADDED", "object": pod}))
    assert json.loads(manage(state / "demo.conf", "replay", "-f", "json", str(file)))["applied"] == 1
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 1, output
    assert "provider intruder/vm is in the model and was never there" in output, output
    assert "pod intruder-1 is in the model and was never there" in output, output


@pytest.mark.rare
def test_a_forged_webhook_is_refused_and_fails_the_demo(
    running: Callable[..., subprocess.Popen[str]], tmp_path: pathlib.Path
) -> None:
    port = free_port()
    process = running("--port", str(port), "--state-path", str(tmp_path / "state"), *SMALL)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/subscriptions", timeout=deadline(60)) as answer:
        subscriptions = {each["name"]: each for each in json.load(answer)["subscriptions"]}
    assert subscriptions.keys() == {"amf-resources", "server"}
    signed = standard_webhooks.headers([b"another secret of 24 bytes"], "msg_1", int(time.time()), b"{}")
    forged = urllib.request.Request(subscriptions["server"]["callback-url"], b"{}", signed)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(forged, timeout=deadline(60))
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 1, output
    assert "1 differences from the truth" in output
    assert "the receiver of server refused a delivery: no signature fits" in output


@pytest.mark.rare
def test_without_webhooks_there_is_no_outlet() -> None:
    done = demo("--for", "1", "--no-webhooks", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Webhook" not in done.stdout
    assert "subscription" not in done.stdout


@pytest.mark.rare
def test_the_commands_that_it_names_show_the_model_while_it_runs_and_afterwards(
    running: Callable[..., subprocess.Popen[str]], tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "state"
    process = running("--state-path", str(state), *SMALL)
    config = state / "demo.conf"
    assert len(manage(config, "journal", "tail").splitlines()) == 20
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 0, output
    count = re.search(r"instance (\d+)", output[output.index("\nModel") :])
    assert count is not None
    assert len(manage(config, "model", "dump", "--kind", "instance").splitlines()) == int(count[1])


@pytest.mark.rare
def test_its_page_and_the_command_line_answer_while_it_runs(running: Callable[..., subprocess.Popen[str]]) -> None:
    port = free_port()
    process = running("--port", str(port), *SMALL)
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/", timeout=deadline(60)) as page:
        assert "watcher_sync" in page.read().decode()
    command = [BIN / "watcher-sync", "--endpoint", url, "entity", "list", "compute_node", "-f", "json"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=deadline(60), check=True)
    assert "compute-0" in {node["ID"] for node in json.loads(listed.stdout)}
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=deadline(170))[0]
    assert process.returncode == 0, output


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--hosts", "1"), "--hosts"),
        (("--for", "-1"), "--for"),
        (("--poison", "101"), "--poison"),
        pytest.param(("--rate", "-1"), "--rate", marks=pytest.mark.rare),
        pytest.param(("--service-instances", "-1"), "--service-instances", marks=pytest.mark.rare),
        (("--state-path", os.devnull), "--state-path"),
    ],
)
def test_wrong_options_end_with_2_and_are_named(options: tuple[str, ...], names: str) -> None:
    done = preloaded(*options)
    assert done.returncode == 2
    assert names in done.stderr
    assert "Traceback" not in done.stderr


def test_it_does_not_begin_in_a_folder_with_a_database(tmp_path: pathlib.Path) -> None:
    (tmp_path / "watcher-sync.sqlite").touch()
    done = preloaded("--for", "1", "--state-path", str(tmp_path))
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr


def test_without_a_command_the_client_ends_with_2() -> None:
    done = subprocess.run([BIN / "watcher-sync"], capture_output=True, text=True, timeout=deadline(60), check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_help_of_a_command_names_its_options() -> None:
    done = preloaded("--help")
    assert done.returncode == 0
    assert "--state-path DIR" in done.stdout
