// SPDX-License-Identifier: Apache-2.0
// Asks again for what the API could not give, with growing pauses that differ from page to page.
const FIRST = 1000;
const LONGEST = 30000;

/** Whether a problem may be gone later. */
const isPassing = (problem) => problem && (problem.status === 0 || problem.status === 429 || problem.status >= 500);

export class Backoff {
  constructor(ask) {
    this._ask = ask;
    this._failures = 0;
    /** When it is asked again, in milliseconds; null: it is not. */
    this.next = null;
  }

  /** Note how a question ended; a problem that may be gone later is followed by another question. */
  after(problem) {
    this.cancel();
    this.next = null;
    if (!isPassing(problem)) {
      this._failures = 0;
      return;
    }
    const pause = Math.max(problem.retryAfter * 1000, Math.min(LONGEST, FIRST * 2 ** Math.min(this._failures, 5)));
    const jittered = pause * (1 + Math.random() / 4);
    this._failures += 1;
    this.next = Date.now() + jittered;
    this._timer = setTimeout(this._ask, jittered);
  }

  /** Do not ask; something else does. */
  cancel() {
    clearTimeout(this._timer);
  }
}
