// SPDX-License-Identifier: Apache-2.0
// All that the page knows, and who asks the API for it when.
//
// Parts are replaced, never changed in place, so whoever draws one sees by its identity whether it is new.
// What changes is drawn at most ten times a second, however many events come. The topology is not kept
// by counting along: after a change it is asked for again, at most every two seconds, and so it is always right.
import { Problem, get, getPages, query, serverTime, session, setToken, token } from "./api.js";
import { momentOf } from "./as_of.js";
import { Backoff } from "./backoff.js";
import { leaderless } from "./engines.js";
import { Names } from "./names.js";
import { Stream } from "./stream.js";

export const KEPT = 1000;
export const WINDOW = 300;
const DRAW = 100;
const AGAIN = 2000;
const SOURCES = 5000;
const QUARANTINE = 10000;
const SUBSCRIPTIONS = 5000;
const NAMES = 1000;
const ENGINES = 5000;
const LONGEST_TIMER = 2 ** 31 - 1;

export class State {
  constructor() {
    this.search = "";
    this.asOf = ""; // what is shown: a seq or a time; empty: the present
    this.moment = null; // its {seq, time}
    this.momentProblem = null;
    this.kinds = {};
    this.kindsProblem = null;
    this.session = 0; // grows with every token
    this.login = null; // whether the API has a login; null: not known yet
    this.before = session(); // the names of the last login, for the next one
    this.ended = ""; // why the last token is not used any more
    this.named = 0; // grows whenever a name becomes known
    this.names = new Names(() => {
      this.named += 1;
      this.changed();
    }, () => Boolean(this.asOf));
    this.topologyRetry = new Backoff(() => this.askTopology());
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
    // A page that was left is hidden, too; a browser may keep it with its connections.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this._expire();
      this.stream.restart();
    });
    this._expire();
    this.askTopology();
    this._askKinds();
    this._askMoment();
    this._begin();
    this._every(SOURCES, () => this.askSources());
    this._every(QUARANTINE, () => this.askQuarantine());
    this._every(SUBSCRIPTIONS, () => this.askSubscriptions());
    this._every(ENGINES, () => this.askEngines());
    this._every(NAMES, () => this.names.ask());
  }

  /**
   * Use another token from now on, or none; what was shown to the one before is gone.
   *
   * @param about what a login gave beside the token.
   * @param ended why there is none.
   */
  signIn(value, about = null, ended = "") {
    setToken(value, about);
    this.before = session() ?? this.before;
    this.ended = ended;
    this.stream.stop();
    this._forget();
    this.needsToken = !value;
    this._expire();
    this.session += 1;
    this.askTopology();
    this.askSources();
    this.askQuarantine();
    this.askSubscriptions();
    this.askEngines();
    this._askKinds();
    this._askMoment();
    this._begin();
    this.changed();
  }

  /** End a login whose token has expired, now or then. */
  _expire() {
    clearTimeout(this._expiring);
    const about = token() && session();
    if (!about) return;
    const left = Date.parse(about.expires_at) - serverTime();
    if (left <= 0) {
      this.signIn("", null, "Your token has expired. Log in again.");
    } else this._expiring = setTimeout(() => this._expire(), Math.min(left, LONGEST_TIMER));
  }

  /** Whether the page has nothing to show without a token. */
  locked() {
    return this.needsToken && !this.topology && !this.sources && !this.quarantine && !this.latest().length;
  }

  _forget() {
    this.live = { state: "waiting", since: Date.now() };
    this.topology = null;
    this.topologyProblem = null;
    this.topologyRetry.after(null);
    this.found = null;
    this.foundProblem = null;
    this.sources = null;
    this.inventories = [];
    this.sourcesProblem = null;
    this.sourcesAt = 0;
    this.quarantine = null;
    this.quarantineProblem = null;
    this.subscriptions = null;
    this.subscriptionsProblem = null;
    this.subscriptionsAt = 0;
    this.engines = null;
    this.enginesAt = 0; // by the server's clock
    this.enginesProblem = null;
    this.outlets = null;
    this.outletsProblem = null;
    this.changes = [];
    this.rates = new Map();
    this.ratesFrom = Date.now() / 1000;
    this.needsToken = false;
    this.seq = 0;
    this._fresh = [];
    this.names.forget();
  }

  /** Show the model as of a moment; empty: as it is now. */
  showAsOf(asOf) {
    if (asOf === this.asOf) return;
    this.asOf = asOf;
    this.moment = null;
    this.momentProblem = null;
    this.askTopology();
    this.askSearch();
    this._askMoment();
    this.changed();
  }

  async _askMoment() {
    const { asOf } = this;
    if (!asOf) return;
    await this._part("moment", asOf, (moment) => {
      if (asOf === this.asOf) this.moment = moment;
    }, momentOf);
  }

  /** The parameters of a question about what is shown. */
  _shown(parameters) {
    return query({ ...parameters, ...(this.asOf && { as_of: this.asOf }) });
  }

  searchFor(text) {
    this.search = text;
    this.changed();
    clearTimeout(this._due);
    this._due = setTimeout(() => this.askTopology(), 150);
    clearTimeout(this._dueSearch);
    this._dueSearch = setTimeout(() => this.askSearch(), 150);
  }

  /** Ask for the entities of all kinds that have the text in their name or id. */
  async askSearch() {
    const { search: text, asOf } = this;
    if (!text) {
      this.found = null;
      this.foundProblem = null;
      this.changed();
      return;
    }
    await this._part("found", `v1/search?${this._shown({ q: text })}`, (answer) => {
      if (text === this.search && asOf === this.asOf) this.found = answer; // else an answer to an older question
    });
  }

  async askTopology() {
    clearTimeout(this._due);
    this.topologyRetry.cancel();
    this._due = null;
    const { asOf } = this;
    const asked = (this._asked = performance.now());
    await this._part("topology", `v1/topology?${this._shown(this.search ? { search: this.search } : {})}`, (answer) => {
      if (asked !== this._asked) return; // an answer to an older question
      this.topology = answer;
      this.topologyOf = asOf;
      if (asOf) return;
      if (answer.seq < this.seq) this._askSoon(); // something happened while it was on its way
      else this.seq = answer.seq;
    });
    this._painted = true;
    if (asked !== this._asked) return;
    if (this.topologyProblem && asOf) this.topology = null; // it is of another moment
    this.topologyRetry.after(this.topologyProblem);
    this.changed();
  }

  /** How many entities of a kind are shown; undefined: not known. */
  total(kind) {
    const states = this.topology?.kinds[kind];
    return states && Object.values(states).reduce((all, n) => all + n, 0);
  }

  async askSources() {
    await this._part("sources", "v1/sources", (answer) => {
      this.sources = answer.sources;
      this.inventories = answer.inventories || [];
      this.sourcesAt = Date.now();
    });
  }

  async askQuarantine() {
    await this._part("quarantine", "v1/quarantine_reasons", (answer) => {
      this.quarantine = answer;
    });
  }

  /** An API without this resource has no view of it either. */
  async askEngines() {
    if (this.enginesProblem?.status === 404) return;
    await this._part("engines", "v1/engines", (answer) => {
      this.engines = answer.engines;
      this.enginesAt = serverTime();
    });
    await this._part("outlets", "v1/outlets", (answer) => {
      this.outlets = answer.outlets;
    });
  }

  /** The server's clock: its times are compared with it, and not with the browser's. */
  serverNow() {
    return serverTime();
  }

  /** Whether no engine leads, as far as it is known: the model does not follow what happens. */
  leaderless() {
    const sources = (this.sources || []).filter((one) => one.state !== "removed");
    if (this.engines?.length === 0) return sources.length > 0; // they were stopped
    if (this.engines) return leaderless(this.engines, this.serverNow()).length > 0;
    return sources.length > 0 && sources.every((one) => !one.fresh && /no engine/i.test(one.problem));
  }

  async askSubscriptions() {
    const take = (answer) => {
      this.subscriptions = answer;
      this.subscriptionsAt = Date.now();
    };
    await this._part("subscriptions", "v1/subscriptions", take, getPages);
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
    await this._part("kinds", "v1", ({ version }) => {
      // A link may begin with the path of a proxy. What the page asks for is below its own address.
      for (const kind in version.kinds) version.kinds[kind] = version.kinds[kind].replace(/^.*(?=\/v1\/)/, "");
      this.kinds = version.kinds;
      this.names.declare(version);
      this.login = version.links.some(({ rel }) => rel === "login");
    });
    if (this.kindsProblem) setTimeout(() => this._askKinds(), SOURCES);
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
    if (error.status !== 401) return;
    if (token()) this.signIn("", null, "The token was refused.");
    else this.needsToken = true;
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
    if (this._due !== null || document.hidden || this.asOf || this.topologyProblem?.status === 403) return;
    if (this.topologyRetry.next) return;
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
    const kinds = this.rates.get(second) ?? {};
    this.rates.set(second, { ...kinds, [row.kind]: (kinds[row.kind] || 0) + Math.max(1, row.merged) });
    const [before, after] = row.delta[this.names.fields[row.kind]] || [];
    if (after || before || row.change === "created") this.names.learn(row.kind, row.id, after || before || null);
  }
}
