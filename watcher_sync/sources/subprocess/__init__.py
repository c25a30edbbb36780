# SPDX-License-Identifier: Apache-2.0
"""Drivers that run in a child process of the engine, which ``__main__`` starts.

Measured with JetStream, events/s committed with it against without it: 1.36 times with SQLite, 1.22 times with
PostgreSQL, on two cores. ``doc/source/contributor/decisions/driver-process.rst`` has the figures.

``protocol``  the messages between the two processes, as MessagePack, and the pipes
``source``    the engine's side: a source that passes everything to the child
"""
