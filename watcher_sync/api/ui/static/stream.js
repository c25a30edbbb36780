// SPDX-License-Identifier: Apache-2.0
// The changes as server-sent events, read with fetch, because an EventSource cannot send a token.
//
// onRow gets every change after the start position once and in order, across all connections. A server that is silent
// for longer than two heartbeats counts as gone.
//
// On HTTP/1.1 all tabs of a browser share six connections to a server. So some tabs have a stream each, the other
// visible tabs poll, and the hidden ones wait. No tab gets what only another tab's token may read.
import { Problem, get, headers, problemOf, query } from "./api.js";
import { parse } from "./exact.js";

const SILENCE = 25000;
const LONGEST = 20000;
const STREAMS = 3; // of all tabs
const AGAIN = 1000; // between two polls; a stream that ended sooner did not work
const ROWS = 500;

export class Stream {
  /**
   * @param onRow      called with each change.
   * @param onState    called with {state: "live" | "waiting" | "lost" | "refused", error, until}.
   * @param onLost     called when the journal does not have what was missed (410): read all of the model again, then
   *                   call start.
   */
  constructor({ onRow, onState, onLost }) {
    Object.assign(this, { onRow, onState, onLost });
    this.since = null; // as text
    this.epoch = null; // of the journal; a position of another one is 410
    this.run = 0;
    this.failures = 0;
    this.isLive = false;
    this.noneBefore = 0; // when the next stream may begin
    this.wake = null;
    this.abort = null;
  }

  /** Read the changes after a seq; ends what ran before. */
  start(since) {
    this.since = String(since);
    this.epoch = null;
    this.failures = 0;
    this.restart();
  }

  /** End; no function is called after this. */
  stop() {
    this.since = null;
    this.restart();
  }

  /** Connect again at the last position, or wait while the page is hidden. */
  restart() {
    const run = ++this.run;
    this.abort?.abort();
    this.wake?.();
    this.isLive = false;
    if (this.since !== null && !document.hidden) this._keep(run);
  }

  async _keep(run) {
    while (run === this.run) {
      let error = null;
      let pause = 0; // the server ends every stream after some minutes
      try {
        pause = (await this._isStreamed(run)) ? 0 : await this._ask(run);
      } catch (caught) {
        error = caught instanceof Problem ? caught : new Problem(0, "The connection was cut");
      }
      if (run !== this.run) return;
      if (error?.status === 401 || error?.status === 403) {
        this.onState({ state: "refused", error });
        return;
      }
      const isLost = error?.status === 410;
      if (isLost || (error?.status === 0 && this.isLive)) {
        this.isLive = false; // a proxy ends silent streams: only the next failure in a row is shown
        pause = AGAIN;
      } else if (error) {
        this.failures += 1;
        this.isLive = false;
        pause = Math.max(error.retryAfter * 1000, Math.min(LONGEST, 500 * 2 ** Math.min(this.failures, 6)));
        pause *= 0.75 + Math.random() / 2;
        this.onState({ state: "lost", error, until: Date.now() + pause });
      }
      if (pause) {
        await new Promise((resolve) => {
          this.wake = resolve;
          setTimeout(resolve, pause);
        });
      }
      if (isLost && run === this.run) {
        this.onLost();
        return;
      }
    }
  }

  /** Read a stream to its end; false: other tabs have all streams, or the browser has no locks (without TLS). */
  async _isStreamed(run) {
    for (let number = 1; navigator.locks && Date.now() >= this.noneBefore && number <= STREAMS; number += 1) {
      const isMine = await navigator.locks.request(`watcher-sync-stream-${number}`, { ifAvailable: true }, async (lock) => {
        if (lock && run === this.run) await this._connect(run);
        return lock !== null;
      });
      if (isMine) return true;
    }
    return false;
  }

  /** Poll once; returns the milliseconds until the next poll. */
  async _ask(run) {
    const page = await get(`v1/events?${query({ since: this.since, limit: ROWS, ...(this.epoch && { epoch: this.epoch }) })}`);
    if (run !== this.run) return 0;
    this._answered(page.epoch);
    for (const row of page.events) this.onRow(row);
    this.since = String(page.next_since);
    return page.next_since < page.head ? 0 : AGAIN;
  }

  _answered(epoch) {
    this.failures = 0;
    this.epoch = epoch;
    if (!this.isLive) this.onState({ state: "live" });
    this.isLive = true;
  }

  async _connect(run) {
    const begun = Date.now();
    const abort = (this.abort = new AbortController());
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await fetch(this.epoch ? `v1/events?epoch=${this.epoch}` : "v1/events", {
        headers: headers({ Accept: "text/event-stream", "Last-Event-ID": this.since }),
        cache: "no-store",
        signal: abort.signal,
      });
      if (response.status === 429 || response.status === 503) {
        this.noneBefore = Date.now() + LONGEST; // other browsers have all streams: poll
        return;
      }
      if (!response.ok) throw await problemOf(response);
      this._answered(response.headers.get("X-Watcher-Sync-Epoch"));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done && Date.now() - begun < AGAIN) this.noneBefore = Date.now() + LONGEST; // a proxy ends streams: poll
        if (done || run !== this.run) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) this._block(block);
      }
    } finally {
      clearTimeout(watchdog);
      abort.abort();
    }
  }

  _block(block) {
    let data = null;
    for (const line of block.split("\n")) {
      if (line.startsWith("id: ")) this.since = line.slice(4);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (data !== null) this.onRow(parse(data));
  }
}
