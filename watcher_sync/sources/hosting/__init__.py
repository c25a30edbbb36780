# SPDX-License-Identifier: Apache-2.0
"""Drivers that live in a process of their own, beside the engine's.

To talk to a server and to decode what it sends costs as much processor time as a third of all the rest, and in
one process the threads take it from each other. In a process of its own a driver uses the other core, and keeps
its connection alive while the engine is busy.

* :mod:`~watcher_sync.sources.hosting.source` is what the engine sees: a source like any other.
* ``python -m watcher_sync.sources.hosting`` is the other process, with the driver in it.
* :mod:`~watcher_sync.sources.hosting.wire` is what they say to each other, through a pair of pipes.

Guaranteed: the source contract, as if the driver were here. The process lives no longer than the source: it ends
when told to, when its pipes are closed because the engine died, and when the engine is frozen, which it tells from
the silence; then the transport delivers again what was in hand. If the process dies, the source has failed, and the
supervisor makes a new one. What it logs is logged by the engine.

Not promised: :attr:`Event.position`. It carries the number by which the two sides know the event, so a driver that
keeps cursors cannot live apart.
"""
