# SPDX-License-Identifier: Apache-2.0
"""Why a database is unavailable: each address once, in one line, without the driver's hints."""

from __future__ import annotations

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from tests.services.servers import free_port
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.storage.database.database import translated


@pytest.mark.parametrize("count", [1, 2])
def test_each_address_of_postgresql_that_refuses_is_named_once(count: int) -> None:
    ports = [free_port() for _ in range(count)]
    url = "postgresql+psycopg://u:pa55word@/d?" + "&".join(f"host=127.0.0.1:{port}" for port in ports)
    with pytest.raises(DatabaseUnavailable) as caught, translated():
        sa.create_engine(url).connect()
    attempts = str(caught.value).split("; ")
    refused = [f'connection to server at "127.0.0.1", port {port} failed: Connection refused' for port in ports]
    assert sorted(attempts) == sorted(refused)


def test_a_server_that_does_not_answer_is_named_beside_one_that_refuses() -> None:
    refused = 'connection to server at "10.0.0.2", port 5432 failed: Connection refused'
    text = (
        f"connection failed: {refused}\n\tIs the server running?\n"
        "Multiple connection attempts failed. All failures were:\n"
        "- host: 'db1', port: 5432: connection timeout expired\n"
        f"- host: 'db2', port: 5432: connection failed: {refused}\n\tIs the server running?"
    )
    with pytest.raises(DatabaseUnavailable) as caught, translated():
        raise sa_exc.OperationalError("SELECT", {}, psycopg.OperationalError(text))
    assert str(caught.value) == f"host: 'db1', port: 5432: connection timeout expired; {refused}"


def test_a_connection_that_is_lost_has_no_hint_of_the_library() -> None:
    text = (
        "consuming input failed: server closed the connection unexpectedly\n"
        "\tThis probably means the server terminated abnormally\n\tbefore or while processing the request."
    )
    with pytest.raises(DatabaseUnavailable) as caught, translated():
        raise sa_exc.OperationalError("SELECT", {}, psycopg.OperationalError(text))
    assert str(caught.value) == "consuming input failed: server closed the connection unexpectedly"
