# SPDX-License-Identifier: Apache-2.0
"""The steps that every cloud with a Keystone shares: databases, Keystone itself, WSGI applications."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import requests
import sqlalchemy

from tests.real_nova.processes import Processes, wait_for
from tests.real_nova.settings import PASSWORD, Site
from tests.waiting import deadline

START_SECONDS = 90.0
"""How long a part may take to come up."""

_HOSTED = Path(__file__).with_name("hosted")


def create_databases(server: sqlalchemy.URL, names: Iterable[str]) -> None:
    """Empty databases."""
    _execute(server, (f"CREATE DATABASE {name} CHARACTER SET utf8mb4" for name in names))


def drop_databases(server: sqlalchemy.URL, names: Iterable[str]) -> None:
    """Remove databases, if they exist."""
    _execute(server, (f"DROP DATABASE IF EXISTS {name}" for name in names))


def _execute(server: sqlalchemy.URL, statements: Iterable[str]) -> None:
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def bootstrap_identity(processes: Processes, site: Site) -> None:
    """Keystone's tables, its keys, and the user admin."""
    manage = (site.programs.path("keystone-manage"), "--config-file", str(site.config("keystone")))
    url = f"{site.url('keystone')}/v3"
    processes.run(*manage, "db_sync")
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    for keys in ("fernet_setup", "credential_setup"):
        processes.run(*manage, keys, f"--keystone-user={user}", f"--keystone-group={group}")
    places = [f"--bootstrap-{kind}-url={url}" for kind in ("public", "internal", "admin")]
    region = "--bootstrap-region-id=RegionOne"
    processes.run(*manage, "bootstrap", f"--bootstrap-password={PASSWORD}", region, *places)


def serve(
    processes: Processes, site: Site, name: str, application: str, *, threads: int, environment: Mapping[str, str]
) -> None:
    """Start a WSGI application, and wait until it answers."""
    command = (site.programs.python, str(_HOSTED / "serve.py"), str(site.ports[name]), str(threads), application)
    processes.start(name, *command, environment=environment)

    def answers() -> bool:
        processes.check(name)
        with suppress(requests.ConnectionError, requests.Timeout):
            requests.get(site.url(name), timeout=deadline(5))
            return True
        return False

    wait_for(answers, START_SECONDS, f"an answer of {name}")
