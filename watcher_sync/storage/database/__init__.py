# SPDX-License-Identifier: Apache-2.0
"""The database: engine, sessions, dialects, time, and what is tried again.

``database``       Connects to the database, classifies its errors, and runs a transaction again after a deadlock
``database_time``  The time of the database, for deletions by age
``failover``       Discards the connections to a server that refuses all writes
``file_modes``     The modes of the files that our processes write
``pages``          Pages of a query that are bounded in rows and in bytes
``postgresql``     Connections to PostgreSQL that close when the server does not answer in time
``sqlite_file``    Notices that the file of an SQLite database was deleted or replaced
``sqlite_locks``   Names the process that holds the write lock of an SQLite database
``time_limits``    Limits how long a process waits for the database, and the database for a process
``types``          Column types with one meaning on SQLite, PostgreSQL and MariaDB
"""
