// SPDX-License-Identifier: Apache-2.0
// The changes as server-sent events, read with fetch: an EventSource could not send a token.
//
// Guaranteed: every change after the position that it was started with is told once and in order, across
// as many connections as that takes. A server that stays silent for longer than two heartbeats counts as gone.
import { Problem, headers, problemOf } from "./api.js";

const SILENCE = 25000;
const LONGEST = 20000;

export class Stream {
  /**
   * @param onRow      called with each change.
   * @param onState    called with {state: "live" | "waiting" | "lost" | "refused", error, until}.
   * @param onLost     called when the journal cannot tell what was missed (410): read everything again,
   *                   then start anew.
   */
  constructor({ onRow, onState, onLost }) {
    Object.assign(this, { onRow, onState, onLost });
    this.since = null;
    this.epoch = null; // of the journal; a position of another one is 410
    this.run = 0;
    this.failures = 0;
    this.wake = null;
    this.abort = null;
  }

  /** Begin after a seq; what ran before ends. */
  start(since) {
    this.since = since;
    this.epoch = null;
    this.failures = 0;
    this.restart();
  }

  /** End for good; nothing is told any more. */
  stop() {
    this.run += 1;
    this.since = null;
    this.abort?.abort();
    this.wake?.();
  }

  /** End the connection; `restart` goes on where it was. */
  pause() {
    this.run += 1;
    this.abort?.abort();
    this.wake?.();
  }

  /** Connect again at once. */
  restart() {
    const run = ++this.run;
    this.abort?.abort();
    this.wake?.();
    this._keep(run);
  }

  async _keep(run) {
    while (run === this.run) {
      let error = null;
      try {
        await this._connect(run);
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
      if (!error) continue; // the server ends every stream some time
      this.failures += 1;
      const pause = Math.max(error.retryAfter * 1000, Math.min(LONGEST, 500 * 2 ** Math.min(this.failures, 6)));
      const jittered = pause * (0.75 + Math.random() / 2);
      this.onState({ state: "lost", error, until: Date.now() + jittered });
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, jittered);
      });
    }
  }

  async _connect(run) {
    const abort = (this.abort = new AbortController());
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await fetch(this.epoch ? `v1/events?epoch=${this.epoch}` : "v1/events", {
        headers: headers({ Accept: "text/event-stream", "Last-Event-ID": String(this.since) }),
        cache: "no-store",
        signal: abort.signal,
      });
      if (!response.ok) throw await problemOf(response);
      this.failures = 0;
      this.epoch = response.headers.get("X-Watcher-Sync-Epoch");
      this.onState({ state: "live" });
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
      if (line.startsWith("id: ")) this.since = Number(line.slice(4));
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (data !== null) this.onRow(JSON.parse(data));
  }
}
