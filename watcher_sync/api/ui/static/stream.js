// SPDX-License-Identifier: Apache-2.0
// The changes as server-sent events, read with fetch: an EventSource could not send a token.
//
// Guaranteed: every change after the position that it was started with is told once and in order, across
// as many connections as that takes. A server that stays silent for longer than two heartbeats counts as gone.
//
// On HTTP/1.1 a browser has six connections for a server, and all its tabs share them. So some tabs have a stream each,
// the other visible ones ask again and again, and the hidden ones wait. No tab gets what another one's token may read.
import { Problem, get, headers, problemOf, query } from "./api.js";
import { parse } from "./exact.js";

const SILENCE = 25000;
const LONGEST = 20000;
const STREAMS = 3; // of all tabs
const AGAIN = 1000;
const ROWS = 500;

export class Stream {
  /**
   * @param onRow      called with each change.
   * @param onState    called with {state: "live" | "waiting" | "lost" | "refused", error, until}.
   * @param onLost     called when the journal cannot tell what was missed (410): read everything again,
   *                   then start anew.
   */
  constructor({ onRow, onState, onLost }) {
    Object.assign(this, { onRow, onState, onLost });
    this.since = null; // as text
    this.epoch = null; // of the journal; a position of another one is 410
    this.run = 0;
    this.failures = 0;
    this.isLive = false;
    this.noneBefore = 0; // when a stream is tried again that the API refused
    this.wake = null;
    this.abort = null;
  }

  /** Begin after a seq; what ran before ends. */
  start(since) {
    this.since = String(since);
    this.epoch = null;
    this.failures = 0;
    this.restart();
  }

  /** End for good; nothing is told any more. */
  stop() {
    this.since = null;
    this.restart();
  }

  /** Go on at once where it was; while the page is hidden, wait. */
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
      let pause = 0; // the server ends every stream some time
      try {
        pause = (await this._isStreamed(run)) ? 0 : await this._ask(run);
      } catch (caught) {
        error = caught instanceof Problem ? caught : new Problem(0, "The connection was cut");
      }
      if (run !== this.run) return;
      if (error?.status === 410) {
        this.onLost();
        return;
      }
      if (error?.status === 401 || error?.status === 403) {
        this.onState({ state: "refused", error });
        return;
      }
      if (error?.status === 0 && this.isLive) {
        this.isLive = false; // a proxy ended what was silent; one that does not come back is told of next time
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
    }
  }

  /** Follow a stream to its end; false: all are in use, or, without TLS, the browser has no locks. */
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

  /** Ask once what has changed; after how many milliseconds to ask again. */
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
    const abort = (this.abort = new AbortController());
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await fetch(this.epoch ? `v1/events?epoch=${this.epoch}` : "v1/events", {
        headers: headers({ Accept: "text/event-stream", "Last-Event-ID": this.since }),
        cache: "no-store",
        signal: abort.signal,
      });
      if (response.status === 429 || response.status === 503) {
        this.noneBefore = Date.now() + LONGEST; // other browsers have all streams: ask
        return;
      }
      if (!response.ok) throw await problemOf(response);
      this._answered(response.headers.get("X-Watcher-Sync-Epoch"));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
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
