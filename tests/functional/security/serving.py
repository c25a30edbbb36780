# SPDX-License-Identifier: Apache-2.0
"""The API under gunicorn, started with the command of the documentation, and nginx with its example in front."""

from __future__ import annotations

import contextlib
import os
import pwd
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import pytest
import trustme

from tests.functional.executables import BIN, start
from tests.functional.security import documented
from tests.services.ensure import CannotEnsure, tool
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until

EXAMPLE = Path(__file__).parents[3] / "etc" / "nginx" / "watcher-sync-api.conf"

_NGINX_CONF = """\
daemon off;
user {user};
pid {folder}/nginx.pid;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/answer;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/example.conf;
}}
"""
"""What a distribution's nginx.conf has around the example, with all paths in one folder."""


@contextlib.contextmanager
def documented_api(config: Path, *options: str, below: str = "") -> Iterator[httpx.Client]:
    """Serve with a configuration file. Only the port of the documented command is another one.

    :param options: more of the command.
    :param below: the path before those of the API, which the environment names.
    """
    (words,) = documented.commands("admin/api.rst", "gunicorn")
    port = free_port()
    command: list[str | Path] = [BIN / "gunicorn", *(word.replace(":8790", f":{port}") for word in words[1:]), *options]
    environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}{below}", timeout=deadline(30))
    with client, running(command, config.with_name("api.log"), client, environment):
        yield client


@contextlib.contextmanager
def behind_nginx(api: httpx.Client, folder: Path) -> Iterator[tuple[httpx.Client, ssl.SSLContext]]:
    """The same API through nginx with the example. Only its port, the API's, and the paths of its keys are others.

    :returns: a client of it, and what verifies its certificate.
    """
    port, authority = free_port(), trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "api.pem")
    certificate.private_key_pem.write_to_path(folder / "api.key")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    text = EXAMPLE.read_text()
    for documented_text, text_here in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8790", f"127.0.0.1:{api.base_url.port}"),
        ("/etc/watcher-sync", str(folder)),
    ):
        assert documented_text in text
        text = text.replace(documented_text, text_here)
    client = httpx.Client(base_url=f"https://localhost:{port}", timeout=deadline(60), verify=trust)
    with client, nginx_with(text, folder, client):
        yield client, trust


@contextlib.contextmanager
def nginx_with(server: str, folder: Path, client: httpx.Client, ready: str = "/v1") -> Iterator[None]:
    """Run nginx, from its first answer to the client on.

    :param server: what its ``conf.d`` has.
    :param ready: the path that it answers with 200.
    """
    try:
        nginx = tool("nginx")
    except CannotEnsure as exc:
        pytest.fail(str(exc), pytrace=False)
    (folder / "example.conf").write_text(server)
    (folder / "nginx.conf").write_text(_NGINX_CONF.format(folder=folder, user=pwd.getpwuid(os.geteuid()).pw_name))
    command: list[str | Path] = [nginx, "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"]
    with running(command, folder / "nginx.log", client, ready=ready):
        yield


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    client: httpx.Client,
    environment: Mapping[str, str] = os.environ,
    *,
    ready: str = "/v1",
) -> Iterator[None]:
    """Run a server, from its first answer to the client on.

    :param ready: the path that it answers with 200.
    """
    process = start(command, log, environment)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            return client.get(ready).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, what=str(command[0]))
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
