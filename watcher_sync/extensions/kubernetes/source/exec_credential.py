# SPDX-License-Identifier: Apache-2.0
"""Gets credentials from the program that the kubeconfig names under ``exec``.

The protocol is client-go's. The official Python client runs the program without a time limit and with the whole
environment of the engine, and it ignores certificates that expire. Here the program gets:

* a time limit, and the end of its process group (:func:`run`);
* ``PATH``, ``HOME``, the variables of the kubeconfig, and those that the option ``exec_environment`` names;
* no terminal and no input.

Its output is never logged, because it has the token. Of its error output the first line goes into the exception.

Reference: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins and
https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source.kubeconfig import (
    Exec,
    Files,
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigUser,
    Section,
)

_EXTENSION: Final = "client.authentication.k8s.io/exec"
_KIND: Final = "ExecCredential"
_ALWAYS_PASSED: Final = ("PATH", "HOME")
_MAX_STDOUT_BYTES: Final = 1024 * 1024
_MAX_STDERR_BYTES: Final = 4096
_MAX_MESSAGE_CHARS: Final = 120


class ExecError(Exception):
    """The program gave no credentials; the message names it and says why."""


class ExecSettings(msgspec.Struct, frozen=True):
    """How the program runs."""

    timeout: float = 30.0
    """Seconds."""
    environment: tuple[str, ...] = ()
    """Names of further variables of our environment that the program gets."""


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials: a token, a certificate with its key, or both."""

    token: str | None = None
    client_certificate_data: str | None = None
    """PEM."""
    client_key_data: str | None = None
    """PEM."""
    expiration_timestamp: datetime.datetime | None = None
    """None: they hold until the server refuses them."""


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: ExecStatus | None = None


def get_credentials(
    config: Kubeconfig, settings: ExecSettings, files: Files, environ: Mapping[str, str] = os.environ
) -> ExecStatus:
    """Run the program of the user of ``config``, who has one.

    :param files: remembers what was read.
    :raises ExecError: see the class.
    :raises KubeconfigError: the certificate authority, which the program gets, cannot be read.
    """
    entry = config.user.values.exec
    assert entry is not None
    command = _find_command(config.user, entry)
    variables = _environment(entry, settings, environ)
    variables["KUBERNETES_EXEC_INFO"] = _exec_info(config, entry, files)
    try:
        output = run(
            [command, *(entry.args or ())],
            variables,
            timeout=settings.timeout,
            max_stdout=_MAX_STDOUT_BYTES,
            max_stderr=_MAX_STDERR_BYTES,
        )
    except ProcessError as exc:
        hint = f"; {' '.join(entry.install_hint.split())}" if entry.install_hint and "started" in str(exc) else ""
        raise ExecError(f"exec plugin {entry.command}: {exc}{hint}"[: 2 * _MAX_MESSAGE_CHARS]) from None
    if output.status != 0:
        lines = output.stderr.decode(errors="replace").strip().splitlines()
        why = f": {_printable(lines[0])}" if lines else ""
        raise ExecError(f"exec plugin {entry.command}: ended with status {output.status}{why}")
    return _read_answer(entry, output.stdout)


def _find_command(user: Section[KubeconfigUser], entry: Exec) -> str:
    """A name without a slash is searched in PATH; a path is relative to the kubeconfig's folder."""
    return str(user.path.parent / entry.command) if "/" in entry.command else entry.command


def _environment(entry: Exec, settings: ExecSettings, environ: Mapping[str, str]) -> dict[str, str]:
    names: Sequence[str] = (*_ALWAYS_PASSED, *settings.environment)
    found = {name: environ[name] for name in names if name in environ}
    return found | {variable.name: variable.value for variable in entry.env or ()}


def _exec_info(config: Kubeconfig, entry: Exec, files: Files) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if entry.provide_cluster_info:
        spec["cluster"] = _cluster_info(config.cluster, files)
    return msgspec.json.encode({"apiVersion": entry.api_version, "kind": _KIND, "spec": spec}).decode()


def _cluster_info(cluster: Section[KubeconfigCluster], files: Files) -> dict[str, Any]:
    """The Cluster object of the protocol. The certificate authority is always passed as data."""
    found = {key: value for key, value in msgspec.to_builtins(cluster.values).items() if value}
    found.pop("certificate-authority", None)
    authority = cluster.content("certificate-authority", files)
    if authority is not None:
        found["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in found.pop("extensions", ()):
        if extension.get("name") == _EXTENSION:
            found["config"] = extension.get("extension")
    return found


def _read_answer(entry: Exec, stdout: bytes) -> ExecStatus:
    try:
        answer = msgspec.json.decode(stdout, type=_ExecCredential)
    except UNDECODABLE as exc:
        # The message names a field, and never its value.
        raise ExecError(f"exec plugin {entry.command}: its output is no {_KIND}: {_printable(str(exc))}") from None
    if answer.kind != _KIND or answer.api_version != entry.api_version:
        raise ExecError(f"exec plugin {entry.command}: its output is no {_KIND} of {entry.api_version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise ExecError(f"exec plugin {entry.command}: its output has neither token nor clientCertificateData")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ExecError(
            f"exec plugin {entry.command}: its output must have both clientCertificateData and clientKeyData"
        )
    return status


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:_MAX_MESSAGE_CHARS]


_CHUNK_BYTES: Final = 65536


class ProcessError(Exception):
    """The program could not be started, did not end in time, or wrote too much."""


class Output(msgspec.Struct, frozen=True):
    """What a program wrote, and how it ended."""

    status: int
    """The exit status; negative: the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes
    """The beginning."""


def run(
    command: Sequence[str], environ: Mapping[str, str], *, timeout: float, max_stdout: int, max_stderr: int
) -> Output:
    """Run the program without a terminal and without input.

    The program leads a process group of its own. When it has ended, or must end, the whole group gets SIGKILL. A child
    that the program left behind therefore ends too.

    :param timeout: seconds.
    :param max_stdout: bytes; more is an error.
    :param max_stderr: bytes; more is read and discarded.
    :raises ProcessError: see the class.
    """
    deadline = time.monotonic() + timeout
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise ProcessError(f"cannot be started: {getattr(exc, 'strerror', None) or exc}") from None
    try:
        stdout, stderr = _collect(process, deadline, timeout, max_stdout, max_stderr)
    finally:
        _end(process)
    return Output(process.returncode, stdout, stderr)


def _collect(
    process: subprocess.Popen[bytes], deadline: float, timeout: float, max_stdout: int, max_stderr: int
) -> tuple[bytes, bytes]:
    """Read both pipes to their ends, and wait for the end of the process. Does not reap it."""
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = bytearray(), bytearray()
    pidfd = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            selector.register(process.stdout, selectors.EVENT_READ, stdout)
            selector.register(process.stderr, selectors.EVENT_READ, stderr)
            while selector.get_map():
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise ProcessError(f"did not end within {timeout:g} s")
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_BYTES) if key.data is not None else b""
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.data is stderr:
                        stderr += chunk[: max_stderr - len(stderr)]
                    else:
                        stdout += chunk
                if len(stdout) > max_stdout:
                    raise ProcessError(f"wrote more than {max_stdout} bytes")
                if time.monotonic() > deadline:
                    raise ProcessError(f"did not end within {timeout:g} s")
    finally:
        os.close(pidfd)
    return bytes(stdout), bytes(stderr)


def _end(process: subprocess.Popen[bytes]) -> None:
    # The leader is not reaped yet, so the number of the group cannot belong to other processes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    pipes: list[IO[bytes] | None] = [process.stdout, process.stderr]
    for pipe in pipes:
        if pipe is not None:
            pipe.close()
