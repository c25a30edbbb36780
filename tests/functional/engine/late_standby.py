# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL with a physical standby that does not get the last transactions, and is promoted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import sqlalchemy as sa

from tests.services.servers import PostgreSQL, free_port
from tests.waiting import wait_until


class LateStandby:
    """The standby of a private server. It has the server's port after the fail-over, as behind a virtual address."""

    def __init__(self, primary: PostgreSQL) -> None:
        self._primary = primary
        self._data = primary.home / "standby"
        self._port = free_port()
        primary._run(
            primary._program("pg_basebackup"), "-D", str(self._data), "-R", "-X", "stream", "-c", "fast",
            "-h", "127.0.0.1", "-p", str(primary.port), "-U", "root",
        )  # fmt: skip
        self._control("start", "-w", "-o", f"-c port={self._port} -c listen_addresses=127.0.0.1")

    def fall_behind(self) -> None:
        """Wait until the standby has all transactions of now, and cut it off."""
        url = sa.make_url(self._primary.url)
        primary, standby = (sa.create_engine(each, poolclass=sa.NullPool) for each in (url, url.set(port=self._port)))
        with primary.connect() as connection:
            reached = connection.exec_driver_sql("SELECT pg_current_wal_lsn()::text").scalar_one()
        with standby.connect() as connection:
            behind = f"SELECT pg_wal_lsn_diff('{reached}', pg_last_wal_replay_lsn()) > 0"
            wait_until(lambda: not connection.exec_driver_sql(behind).scalar_one(), what="a standby that catches up")
        self._control("stop", "-w", "-m", "fast")

    def take_over(self) -> None:
        """Kill the primary. The standby becomes the primary, on the same port."""
        self._primary.kill()
        data = Path(self._primary.home / "data")
        shutil.move(data, self._primary.home / "lost")
        os.replace(self._data, data)
        self._data = data
        self._primary.start()
        self._control("promote", "-w")

    def _control(self, *arguments: str) -> None:
        log = str(self._primary.home / "standby.log")
        self._primary._run(self._primary._program("pg_ctl"), *arguments, "-D", str(self._data), "-l", log)
