# SPDX-License-Identifier: Apache-2.0
"""Drivers that run in a process of their own, a child of the engine's.

Measured with JetStream, events/s committed with it against without it: 1.33 times with SQLite, 1.19 times with
PostgreSQL, on two cores. ``doc/source/contributor/decisions/driver-process.rst`` has the figures.

``__main__`` the driver's process: the child, which the engine starts with two pipes
``protocol`` the messages between the two processes, as MessagePack, and the pipes
``source``   the engine's side: a source that passes everything to the child
"""
