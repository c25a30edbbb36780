# SPDX-License-Identifier: Apache-2.0
"""The snippets of the TLS chapter: every option exists, every URL is understood, and the peer is verified."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
import trustme
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.cmd.checks.insecure_settings import find_insecure_access, find_insecure_transports  # noqa: E402
from watcher_sync.storage.database.database import open_database  # noqa: E402

_CHAPTER = Path(__file__).parents[3] / "doc" / "source" / "admin" / "tls.rst"


_INI = [
    textwrap.dedent(found)
    for found in re.findall(r"^\.\. code-block:: ini\n\n((?:(?: +.*)?\n)+)", _CHAPTER.read_text(), re.MULTILINE)
]


@pytest.fixture
def read(tmp_path):
    """The configuration of a snippet, with its sources enabled."""

    def read(snippet: str) -> Any:
        names = re.findall(r"^\[source_(\w+)\]", snippet, re.MULTILINE)
        path = tmp_path / "ws.conf"
        path.write_text(f"[engine]\nenabled_sources = {', '.join(names)}\n{snippet}")
        return process.make_conf([f"--config-file={path}"], prog="test")

    return read


def test_each_transport_has_a_snippet():
    sections = " ".join(re.findall(r"^\[\w+\]|\w+(?=://)", "\n".join(_INI), re.MULTILINE))
    for word in ("keystone_authtoken", "oslo_messaging_rabbit", "source_dcm", "postgresql", "mysql"):
        assert word in sections + "".join(_INI)
    assert len(_INI) == 7


@pytest.mark.parametrize("snippet", _INI)
def test_every_option_exists_and_the_upgrade_check_has_no_finding(read, snippet):
    conf = read(snippet)
    assert find_insecure_transports(conf) == []
    assert [line for line in find_insecure_access(conf) if "source_policy" not in line] == []


@pytest.mark.parametrize("snippet", [text for text in _INI if "[database]" in text])
def test_every_database_url_is_understood_by_its_driver(read, snippet):
    database = open_database(read(snippet))
    _, arguments = database.dialect.create_connect_args(database.url)
    if database.dialect.name == "postgresql":
        assert arguments["sslmode"] == "verify-full"
        assert arguments["sslrootcert"].endswith("db-ca.pem")
    else:
        assert arguments["ssl"] == {"ca": "/etc/watcher-sync/db-ca.pem"}


def test_pymysql_verifies_chain_and_host_name_with_only_an_authority(tmp_path):
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    url = sa.make_url(f"mysql+pymysql://ws@db/ws?ssl_ca={tmp_path}/ca.pem")
    _, arguments = url.get_dialect()().create_connect_args(url)
    connection = pymysql.connections.Connection(defer_connect=True, **arguments)
    assert connection.ctx.check_hostname
    assert connection.ctx.verify_mode.name == "CERT_REQUIRED"
