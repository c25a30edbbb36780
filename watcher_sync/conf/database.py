# SPDX-License-Identifier: Apache-2.0
"""Options of ``[database]`` that this package adds to those of oslo.db: time limits, intervals and leases."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "database"

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "commit_timeout",
        default=5.0,
        min=1,
        max=300,
        advanced=True,
        help="""
Seconds without an answer after which a commit gives its connection up.

The process closes the connection, reads from the journal's head over a new one whether the commit happened, and
retries. The limit holds for each statement of a commit, and for the other short statements of the engine's thread.
It doubles after each commit that exceeds it, up to ``statement_timeout``, and returns to this value with the next
commit. It does not apply to SQLite.

A value above 7 delays the red ``/readyz`` by more than ten seconds.

Related options: ``statement_timeout``, ``idle_transaction_timeout``.
""",
    ),
    cfg.FloatOpt(
        "statement_timeout",
        default=60.0,
        min=1,
        max=3600,
        advanced=True,
        help="""
Seconds without an answer after which any other statement of an engine or a command gives its connection up.

Increase it if reading or purging a large table takes the database longer than this until its first row. It does not
apply to SQLite, nor to ``watcher-sync-manage db_sync``.

Related options: ``commit_timeout``, ``read_timeout``.
""",
    ),
    cfg.FloatOpt(
        "read_timeout",
        default=10.0,
        min=1,
        max=3600,
        advanced=True,
        help="""
Seconds without an answer after which a statement of an API worker or an outlet gives its connection up.

The worker connects again, which takes at most three seconds. If that fails, too, the API answers 503. Shortly before,
the database itself ends a statement that still works; SQLite does so after this processor time of a page. Increase this
value if a page takes the database longer. It does not apply to commits.

Related options: ``statement_timeout``, ``commit_timeout``.
""",
    ),
    cfg.IntOpt(
        "idle_transaction_timeout",
        default=4,
        min=1,
        max=300,
        advanced=True,
        help="""
Seconds after which the server ends a transaction whose process sends nothing.

Each session of PostgreSQL and MariaDB gets this limit. It also limits the time that a statement waits for a row that
another transaction locks, and so does half of the time that it waits for an answer. A machine that stops inside a
transaction blocks others for at most this time. The value must be below ``lease_time``, or a standby cannot lead
in time.

Related options: ``lease_time``.
""",
    ),
    cfg.FloatOpt(
        "journal_poll_interval",
        default=0.05,
        min=0.01,
        max=60,
        advanced=True,
        help="""
Seconds between two reads of the journal by a process that waits for the commits of others.

An engine reads while it has no batch to commit, and a standby always. The API reads for event streams and long polls,
and outlets for what they send. To these PostgreSQL announces each commit, so they read at once and do not poll. Without
announcements, as through some proxies, they poll, too. On SQLite and MariaDB a change reaches clients up to this much
later.
""",
    ),
    cfg.FloatOpt(
        "lease_time",
        default=6.0,
        min=1,
        max=600,
        help="""
Seconds without a renewal after which the lease of a process on its duty expires and another process takes over.

These have a lease: the engine that leads its group, the publisher of an outlet on a log, and each worker that delivers
webhooks. They renew it three or four times in this time. The value must be the same on all machines of a database.

Related options: ``idle_transaction_timeout``, ``[engine] group``, ``[engine] standby``, ``[outlet_webhook] workers``.
""",
    ),
]
