// SPDX-License-Identifier: Apache-2.0
// All that the page knows, and who asks the API for it when.
//
// Parts are replaced, never changed in place, so whoever draws one sees by its identity whether it is new.
// What changes is drawn at most ten times a second, however many events come. The topology is not kept
// by counting along: after a change it is asked for again, at most every two seconds, and so it is always right.
import { Problem, get, getPages, query, setToken } from "./api.js";
import { Stream } from "./stream.js";

export const KEPT = 200;
export const WINDOW = 300;
const DRAW = 100;
const AGAIN = 2000;
const SOURCES = 5000;
const QUARANTINE = 10000;
const SUBSCRIPTIONS = 5000;
const NAMES = 1000;
const ASKED_NAMES = 5;
const NAMED = ["instance", "aggregate", "vnf_instance"];

export class State {
  constructor() {
    this.search = "";
    this.kinds = {};
    this.session = 0; // grows with every token
    this.named = 0; // grows whenever a name becomes known
    this._forget();
    this._drawing = null;
    this._draw = () => {};
    this._watchers = new Set();
    this._due = null;
    this._asked = 0;
    this.stream = new Stream({
      onRow: (row) => this._row(row),
      onState: (live) => this._live(live),
      onLost: () => this._begin(),
    });
  }

  /** Draw with this function whenever something is new. */
  drawWith(draw) {
    this._draw = draw;
    this.changed();
  }

  /** Call with every change; gives a function that ends it. */
  watch(watcher) {
    this._watchers.add(watcher);
    return () => this._watchers.delete(watcher);
  }

  changed() {
    this._drawing ??= setTimeout(() => {
      this._drawing = null;
      this._draw();
    }, this._painted ? DRAW : 0);
  }

  /** Begin; each part comes when it comes. */
  open() {
    this.askTopology();
    this._askKinds();
    this._begin();
    this._every(SOURCES, () => this.askSources());
    this._every(QUARANTINE, () => this.askQuarantine());
    this._every(SUBSCRIPTIONS, () => this.askSubscriptions());
    this._every(NAMES, () => this.askNames());
  }

  /** Use another token from now on, or none; what was shown to the one before is gone. */
  signIn(value) {
    setToken(value);
    this.stream.stop();
    this._forget();
    this.session += 1;
    this.askTopology();
    this.askSources();
    this.askQuarantine();
    this.askSubscriptions();
    this._askKinds();
    this._begin();
    this.changed();
  }

  _forget() {
    this.live = { state: "waiting", since: Date.now() };
    this.topology = null;
    this.topologyProblem = null;
    this.sources = null;
    this.inventories = [];
    this.sourcesProblem = null;
    this.sourcesAt = 0;
    this.quarantine = null;
    this.quarantineProblem = null;
    this.subscriptions = null;
    this.subscriptionsProblem = null;
    this.subscriptionsAt = 0;
    this.changes = [];
    this.rates = new Map();
    this.ratesFrom = Date.now() / 1000;
    this.needsToken = false;
    this.seq = 0;
    this._fresh = [];
    this._names = new Map();
  }

  searchFor(text) {
    this.search = text;
    this.changed();
    clearTimeout(this._due);
    this._due = setTimeout(() => this.askTopology(), 150);
  }

  async askTopology() {
    clearTimeout(this._due);
    this._due = null;
    const asked = (this._asked = performance.now());
    await this._part("topology", `v1/topology?${query(this.search ? { search: this.search } : {})}`, (answer) => {
      if (asked !== this._asked) return; // an answer to an older question
      this.topology = answer;
      if (answer.seq < this.seq) this._askSoon(); // something happened while it was on its way
      this.seq = Math.max(this.seq, answer.seq);
    });
    this._painted = true;
  }

  async askSources() {
    await this._part("sources", "v1/sources", (answer) => {
      this.sources = answer.sources;
      this.inventories = answer.inventories || [];
      this.sourcesAt = Date.now();
    });
  }

  async askQuarantine() {
    await this._part("quarantine", "v1/quarantine", (answer) => {
      this.quarantine = answer;
    });
  }

  async askSubscriptions() {
    const take = (answer) => {
      this.subscriptions = answer;
      this.subscriptionsAt = Date.now();
    };
    await this._part("subscriptions", "v1/subscriptions", take, (path) => getPages(path, "subscriptions"));
  }

  /** How an entity is called, as far as the page knows. */
  nameOf(kind, id) {
    return this._names.get(`${kind}/${id}`);
  }

  /** Ask how those are called that changed lately or have subscriptions; a few at a time, each once. */
  async askNames() {
    if (!Object.keys(this.kinds).length) return;
    const gone = new Set(this.changes.filter((row) => row.change === "deleted").map((row) => row.id));
    const subscribed = (this.subscriptions?.subscriptions || []).map((one) => ({
      kind: one["instance-kind"],
      id: one["instance-id"],
    }));
    const asked = [...subscribed, ...this.changes]
      .filter((row) => NAMED.includes(row.kind) && !gone.has(row.id) && !this._names.has(`${row.kind}/${row.id}`))
      .slice(0, ASKED_NAMES);
    for (const { kind, id } of asked) {
      if (this._names.has(`${kind}/${id}`)) continue;
      this._name(kind, id, null);
      try {
        const { name } = await get(`${this.kinds[kind]}/${encodeURIComponent(id)}?fields=name`);
        this._name(kind, id, name);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      }
    }
    if (asked.length) this.changed();
  }

  _name(kind, id, name) {
    if (this._names.size > 5000) this._names.clear();
    this._names.set(`${kind}/${id}`, name);
    this.named += 1;
  }

  /** Start with the last changes, and go on live from there, without a gap between the two. */
  async _begin() {
    const mine = (this._begun = {});
    try {
      const page = await get("v1/events");
      if (mine !== this._begun) return;
      this.changes = page.events.slice(-KEPT).reverse();
      this.rates = new Map();
      for (const row of page.events) this._remember(row, Date.parse(row.time) / 1000);
      this.ratesFrom = page.events.length ? Date.parse(page.events[0].time) / 1000 : Date.now() / 1000;
      this.seq = page.next_since;
      this.stream.start(page.next_since);
      if (this.topology) this.askTopology();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (mine !== this._begun) return;
      this._refuse(error);
      const refused = error.status === 401 || error.status === 403;
      this._live({ state: refused ? "refused" : "lost", error, until: Date.now() + 3000 });
      if (!refused) setTimeout(() => mine === this._begun && this._begin(), 3000);
    }
    this.changed();
  }

  async _askKinds() {
    try {
      this.kinds = (await get("v1")).version.kinds;
      this.changed();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setTimeout(() => this._askKinds(), SOURCES);
    }
  }

  async _part(name, path, take, ask = get) {
    const { session } = this;
    try {
      const answer = await ask(path);
      if (session !== this.session) return;
      take(answer);
      this[`${name}Problem`] = null;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (session !== this.session) return;
      this[`${name}Problem`] = error;
      this._refuse(error);
    }
    this.changed();
  }

  _refuse(error) {
    if (error.status === 401) this.needsToken = true;
  }

  _every(milliseconds, ask) {
    const again = async () => {
      if (!document.hidden) await ask();
      setTimeout(again, milliseconds);
    };
    again();
  }

  _live(live) {
    const before = this.live;
    this.live = live.state === "lost" && before.state === "lost" ? { ...live, since: before.since } : { ...live, since: Date.now() };
    this.changed();
    if (live.state === "refused") {
      this._refuse(live.error);
      if (live.error.status === 403) this._poll();
    }
  }

  /** Who may not read the changes looks again every now and then. */
  _poll() {
    clearTimeout(this._due);
    this._due = setTimeout(async () => {
      if (!document.hidden) await this.askTopology();
      if (this.live.state === "refused") this._poll();
    }, SOURCES);
  }

  _row(row) {
    this.seq = row.seq;
    this._remember(row, Date.now() / 1000);
    this._fresh.push(row);
    if (this._fresh.length > KEPT) this._fresh.shift();
    for (const watcher of this._watchers) watcher(row);
    this._askSoon();
    this.changed();
  }

  _askSoon() {
    if (this._due !== null || document.hidden || this.topologyProblem?.status === 403) return;
    const wait = Math.max(150, AGAIN - (performance.now() - this._asked));
    this._due = setTimeout(() => this.askTopology(), wait);
  }

  /** The latest changes first; what has come since the last drawing is taken in here. */
  latest() {
    if (this._fresh.length) {
      this.changes = [...this._fresh.reverse(), ...this.changes].slice(0, KEPT);
      this._fresh = [];
    }
    return this.changes;
  }

  _remember(row, at) {
    const second = Math.floor(at);
    this.rates.set(second, (this.rates.get(second) || 0) + Math.max(1, row.merged));
    const [before, after] = row.delta.name || row.delta.instance_name || [];
    if (after || before) this._name(row.kind, row.id, after || before);
  }
}
