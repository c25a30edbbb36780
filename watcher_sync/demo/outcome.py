# SPDX-License-Identifier: Apache-2.0
"""The figures of a run of the demo: those that the API does not serve, and what is printed at its end."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from watcher_sync.engine.engine import Engine
from watcher_sync.escaping import escaped
from watcher_sync.model.model import Snapshot
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.ledger import Truth

_SHOWN: Final = 40


class FigureWatch:
    """Reads the engine and its database from outside.

    Counters come from the engine's statistics. The quarantine comes from the database, through separate connections.
    The engine's thread does no work for it. For one thread, except :meth:`committed`, which any thread may call.
    """

    def __init__(self, engine: Engine, reader: Store) -> None:
        self._engine = engine
        self._reader = reader
        self._quarantine = Quarantine(reader)
        self._last_quarantined = 0
        self._quarantined: collections.deque[dict[str, Any]] = collections.deque(maxlen=_SHOWN)

    def committed(self, source: str | None = None) -> int:
        """Events that are through, of one source or of all: applied, parked, in quarantine, or known before."""
        return self._engine.stats.through(source)

    def is_at_head(self) -> bool:
        """Whether the engine's model has the latest commit of every writer."""
        with translated(), self._reader.database.connect() as connection:
            return journal.read_head(connection, self._reader.tables) <= self._engine.model.snapshot().generation

    def quarantined(self) -> int:
        """How many messages are in quarantine."""
        return self._quarantine.count()

    def latest_quarantined(self) -> list[dict[str, Any]]:
        """The latest messages in quarantine, the oldest first."""
        while page := self._quarantine.page(after=self._last_quarantined):
            self._last_quarantined = page[-1]["id"]
            self._quarantined.extend(page)
        return list(self._quarantined)


_DIFFERENCES: Final = 10
"""How many differences are printed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The figures of one run."""

    published: int
    """Messages, those that came twice and those that were broken among them."""
    highest_lag: int
    """The most messages that were published and not committed yet."""
    seconds: float
    repeated: int
    poisoned: int
    dcm_way: str
    """How the providers' events came."""
    existed: str
    """What the model had before the first notification."""
    repaired: int
    """Differences that the last comparison with the cloud healed."""
    outcomes: Mapping[str, int]
    """The engine's counters by name."""
    quarantined: int
    lines: Sequence[str]
    """What the other parts of the demo say of themselves."""


def tell_outcome(
    console: Console, outcome: Outcome, snapshot: Snapshot, truth: Truth, differences: Sequence[str]
) -> None:
    """Print the figures, and whether the tables equal the truth.

    :param snapshot: the tables, loaded back.
    :param truth: what the simulated systems are.
    :param differences: a line for each place where the two differ.
    """
    say = console.print
    entities = {kind: snapshot.count(kind) for kind in snapshot.kinds if snapshot.count(kind)}
    say(f"Published  {outcome.published:,} messages in {outcome.seconds:.0f} s; {outcome.repeated:,} of them "
        f"came twice, {outcome.poisoned:,} were broken; DCM's came {outcome.dcm_way}")  # fmt: skip
    say(f"Reconciled {outcome.existed}; {outcome.repaired:,} differences after the last message")
    say("Committed  " + ", ".join(f"{name} {n:,}" for name, n in outcome.outcomes.items() if name != "read" and n)
        + f"; the lag was at most {outcome.highest_lag:,}")  # fmt: skip
    say(f"Model      {', '.join(f'{kind} {n:,}' for kind, n in entities.items())}; journal at seq "
        f"{snapshot.generation:,}; {outcome.quarantined:,} different messages in quarantine")  # fmt: skip
    for line in outcome.lines:
        say(line, markup=False)
    if differences:
        say(f"[bold red]Not equal[/]  {len(differences):,} differences from the truth:")
        for difference in differences[:_DIFFERENCES]:
            say(f"  {escaped(difference)}", markup=False)
    else:
        values = sum(len(row) for rows in truth.values() for row in rows.values())
        say(f"[bold green]Equal[/]      {sum(entities.values()):,} entities, {values:,} values: "
            "the tables, loaded back, hold exactly what the simulated systems are")  # fmt: skip
