// SPDX-License-Identifier: Apache-2.0
// The page as a whole: its bar, its panes, its keys. What is shown is named by the address (router.js), so a link leads
// to it, and the browser's Back closes it.
import { html, Component, Pure, render } from "./html.js";
import { AsOf } from "./as_of.js";
import { Changes } from "./changes.js";
import { Drifts } from "./drifts.js";
import { Engines } from "./engines.js";
import { Entity } from "./entity.js";
import { clock, number, words } from "./format.js";
import { isProblem } from "./health.js";
import { Held } from "./held.js";
import { Leases } from "./leases.js";
import { LoggedIn, Login } from "./login.js";
import { Nowhere } from "./nowhere.js";
import { Quarantine } from "./quarantine.js";
import { Rate } from "./rate.js";
import { addressOf, goTo, OF_THE_PAST, open, show, VIEWS, whereabouts } from "./router.js";
import { Services } from "./services.js";
import { Sources } from "./sources.js";
import { State } from "./state.js";
import { mayList, Subscriptions } from "./subscriptions.js";
import { Table } from "./table.js";
import { Topology } from "./topology.js";
import { Vnfs } from "./vnf.js";

const state = new State();
const THEMES = ["auto", "light", "dark"];

/** On a wide screen they are at the side of every view. */
const AT_THE_SIDE = ["changes", "quarantine"];

class Theme extends Component {
  state = { theme: document.documentElement.dataset.theme || "auto" };

  choose = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("watcher-sync-theme", theme);
    } catch {
      // No storage: it lasts as long as the page.
    }
    document.dispatchEvent(new Event("themechange"));
    this.setState({ theme });
  };

  render(_, { theme }) {
    return html`<div class="theme" role="group" aria-label="Colours">
      ${THEMES.map(
        (name) => html`<button key=${name} type="button" aria-pressed=${String(theme === name)}
          onClick=${() => this.choose(name)}>${name}</button>`,
      )}
    </div>`;
  }
}

class Live extends Pure {
  render({ live, seq, leaderless }) {
    const words = { live: "Live", waiting: "Connecting", lost: "Disconnected", refused: "Not live" };
    const dead = live.state === "live" && leaderless;
    const why = live.state === "lost" ? ` since ${clock(live.since)}` : "";
    return html`<div class=${`connection ${live.state}${dead ? " leaderless" : ""}`}>
      <span class="lamp" aria-hidden="true"></span>
      <span role="status">${dead ? "No engine leads" : `${words[live.state]}${why}`}</span>
      <span class="seq" title="Sequence number of the last change in the journal">#${number(seq)}</span>
    </div>`;
  }
}

function Lost({ live }) {
  return html`<div class="banner" role="alert">
    <p>Disconnected: ${live.error.message}. What you see is as of ${clock(live.since)}; the page tries again by itself.</p>
    <button type="button" onClick=${() => (state.stream.since === null ? state._begin() : state.stream.restart())}>Try now</button>
  </div>`;
}

/** Places with their members; where there are none, all kinds. Pending: they are of another moment. */
function Figures({ topology, names, pending }) {
  const groups = (topology?.groups || []).filter((group) => group.total);
  const parts = [];
  const troubled = [];
  const states = Object.values(topology?.kinds ?? {}).flatMap(Object.keys);
  if (!groups.length) {
    for (const [kind, states] of Object.entries(topology?.kinds ?? {})) {
      const all = Object.entries(states);
      if (all.length) parts.push(names.count(all.reduce((sum, [, n]) => sum + n, 0), kind));
      const bad = all.reduce((sum, [state, n]) => sum + (isProblem(state) ? n : 0), 0);
      if (bad) troubled.push(names.count(bad, kind));
    }
  }
  for (const group of groups) {
    parts.push(names.count(group.total, group.kind));
    if (group.troubled) troubled.push(names.count(group.troubled, group.kind));
    for (const [kind, states] of Object.entries(group.members)) {
      const all = Object.values(states).reduce((sum, n) => sum + n, 0);
      if (all) parts.push(names.count(all, kind));
    }
  }
  if (pending) return html`<p class="figures">Loading…</p>`;
  return html`<p class="figures">${parts.join(" · ")}
    ${troubled.length > 0 && html`<strong>${troubled.join(", ")} with problems</strong>`}
    ${parts.length > 0 && !troubled.length && !states.some(isProblem) && html`<span class="good">all well</span>`}</p>`;
}

class App extends Component {
  state = whereabouts();
  full = new Set(); // session and kind of those that have had entities

  componentDidMount() {
    for (const event of ["hashchange", "popstate", "moved"]) window.addEventListener(event, this.turned);
    window.addEventListener("keydown", this.pressed);
    document.addEventListener("visibilitychange", () => document.hidden || state.askTopology());
    state.drawWith(() => this.forceUpdate());
  }

  turned = () => {
    const before = this.state.opened;
    const now = whereabouts();
    state.showAsOf(now.asOf);
    if (now.opened && !before) this.from = document.activeElement;
    this.setState(now, () => {
      document.querySelector(".views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (now.opened || !this.from) return;
      const back = this.from.isConnected ? this.from : document.querySelector(`.tile[tabindex="0"]`);
      back?.focus();
      this.from = null;
    });
  };

  // A step of its own in the browser's history: Back opens what was closed.
  close = () => show(this.state.place);

  pressed = (event) => {
    if (state.locked()) return;
    const typing = event.target.closest?.("input:not([type=checkbox], [type=radio], [type=range])");
    if (event.key === "Escape") {
      if (typing?.value && typing.type !== "datetime-local") return; // the search field empties itself first
      if (this.state.opened) this.close();
      else typing?.blur();
    } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (document.getElementById("filter")) document.getElementById("filter").focus();
      else {
        if (!document.getElementById("search")?.checkVisibility()) show({ view: "topology" });
        setTimeout(() => document.getElementById("search")?.focus());
      }
    }
  };

  views() {
    const listed = mayList(state.subscriptions, state.subscriptionsProblem);
    const lacks = (view, kind) => {
      const key = `${state.session} ${kind}`;
      if (state.total(kind)) this.full.add(key); // it may be empty at another moment
      return !state.kinds[kind] || (state.total(kind) === 0 && !this.full.has(key) && this.state.place.view !== view);
    };
    const hidden = { subscriptions: !listed, engines: !state.engines, vnfs: lacks("vnfs", "vnf_instance"), services: lacks("services", "service_type_instance") };
    return Object.entries(VIEWS).filter(([name]) => !hidden[name]);
  }

  front(place) {
    const shared = { key: `${state.session} ${place.view}`, kinds: state.kinds, names: state.names, named: state.named, open, watch: this.watch };
    const settings = place.settings;
    const then = this.state.asOf ? { as_of: this.state.asOf } : {};
    const here = (rest, parameters) => show({ view: place.view, rest, settings: { ...parameters, ...then } }, { replace: rest === place.rest });
    const kind = place.rest || this.firstKind();
    if (place.view === "nowhere") return html`<${Nowhere} what=${`view ${place.rest}`} />`;
    if (place.view === "table" && place.rest && Object.keys(state.kinds).length && !state.kinds[place.rest]) {
      return html`<${Nowhere} what=${`kind ${words(place.rest)}`} />`;
    }
    switch (place.view) {
      case "table":
        return html`<${Table} ...${shared} kind=${kind} total=${state.total(kind)} counts=${state.topology?.kinds} settings=${settings} show=${here} />`;
      case "vnfs":
        return html`<${Vnfs} ...${shared} settings=${settings} show=${here} />`;
      case "services":
        return html`<${Services} ...${shared} settings=${settings} show=${here} />`;
      case "drifts":
        return html`<${Drifts} ...${shared} />`;
      case "leases":
        return html`<${Leases} ...${shared} />`;
      case "held":
        return html`<${Held} ...${shared} />`;
      case "engines":
        return html`<${Engines} engines=${state.engines} outlets=${state.outlets} problem=${state.enginesProblem} answered=${state.enginesAt} at=${state.serverNow()} />`;
      case "subscriptions":
        return html`<${Subscriptions} subscriptions=${state.subscriptions} problem=${state.subscriptionsProblem}
          at=${state.subscriptionsAt} names=${state.names} named=${state.named} open=${open} />`;
      default:
        return html`<${Topology} topology=${state.topology} problem=${state.topologyProblem}
          retry=${state.topologyRetry.next} pending=${this.pending()} again=${this.askTopology} search=${state.search}
          found=${state.found} foundProblem=${state.foundProblem}
          selected=${this.selected()} open=${open} names=${state.names} kinds=${state.kinds} asOf=${this.state.asOf} searchFor=${this.searchFor} />`;
    }
  }

  /** The kind whose list is shown first: of those that have entities, the first that runs on another. */
  firstKind() {
    const { kinds, names, topology } = state;
    const all = Object.keys(kinds);
    const full = all.filter((kind) => Object.keys(topology?.kinds[kind] ?? {}).length);
    const runs = (kind) => Object.values(names.references[kind] ?? {}).some((one) => one.relation === "runs_on" && one.kind !== kind);
    return full.find(runs) ?? full[0] ?? all.find(runs) ?? "";
  }

  /** Whether the topology is of another moment than the one to show. */
  pending = () => Boolean(state.topology) && state.topologyOf !== state.asOf;

  selected() {
    const { opened } = this.state;
    return opened && `${opened.kind}/${opened.id}`;
  }

  render(_, { opened, place }) {
    const alarming = state.quarantine?.total || 0;
    const locked = state.locked();
    return html`
      <header class="bar">
        <h1>watcher_sync</h1>
        <${Figures} topology=${state.topology} names=${state.names} pending=${this.pending()} />
        ${!locked && html`<${Live} live=${state.live} seq=${state.seq} leaderless=${state.leaderless()} />`}
        <${LoggedIn} leave=${this.leave} />
        <${Theme} />
      </header>
      ${state.kindsProblem && state.live.state !== "lost" && html`<div class="banner" role="alert"><p>The API does not say what it has: ${state.kindsProblem.message}. The page asks again.</p></div>`}
      ${locked ? html`<main id="main" class="alone" tabindex="-1">${this.login()}</main>` : html`${state.needsToken && this.login()}${this.content(opened, place, alarming)}`}`;
  }

  login() {
    return html`<${Login} key=${state.session} offered=${state.login} before=${state.before} why=${state.ended} signIn=${this.signIn} />`;
  }

  content(opened, place, alarming) {
    const { asOf } = this.state;
    return html`
      ${state.live.state === "lost" && html`<${Lost} live=${state.live} />`}
      <${Sources} sources=${state.sources} inventories=${state.inventories} problem=${state.sourcesProblem} at=${state.sourcesAt} />
      <div class="where">
      <nav class="views" aria-label="Views">
        ${this.views().map(
          ([name, title]) => html`<a key=${name} href=${addressOf({ view: name, settings: asOf ? { as_of: asOf } : null })} class=${AT_THE_SIDE.includes(name) ? "at-the-side" : null}
            aria-current=${place.view === name ? "page" : null}>${title}${
              name === "quarantine" && alarming > 0 && html`<span class="figure alarming">${number(alarming)}</span>`
            }</a>`,
        )}
      </nav>
      ${place.view !== "nowhere" && html`<${AsOf} key=${state.session} asOf=${asOf} moment=${state.moment} problem=${state.momentProblem} onChange=${goTo} changes=${state.latest()} opened=${opened}
        present=${!OF_THE_PAST.includes(place.view) && !opened} />`}
      </div>
      <main id="main" tabindex="-1" class=${`view-${place.view}${opened ? " with-entity" : ""}${AT_THE_SIDE.includes(place.view) ? " side-first" : ""}`}>
        <div class="front">${this.front(place)}</div>
        <div class="side">
          <${Rate} source=${this.rates} names=${state.names} />
          <${Changes} changes=${state.latest()} names=${state.names} named=${state.named} open=${open} live=${state.live} />
          <${Quarantine} quarantine=${state.quarantine} problem=${state.quarantineProblem} again=${this.askQuarantine} />
        </div>
        ${opened &&
        html`<${Entity} key=${`${state.session} ${this.selected()}`} kind=${opened.kind} id=${opened.id} path=${state.kinds[opened.kind]}
          paths=${state.kinds} names=${state.names} named=${state.named} watch=${this.watch} open=${open} close=${this.close}
          asOf=${asOf} moment=${state.moment} />`}
      </main>`;
  }

  askTopology = () => state.askTopology();
  signIn = (token, about) => state.signIn(token, about);
  leave = () => state.signIn("");
  searchFor = (text) => state.searchFor(text);
  watch = (watcher) => state.watch(watcher);
  rates = () => ({ rates: state.rates, from: state.ratesFrom });
  askQuarantine = () => state.askQuarantine();
}

state.asOf = whereabouts().asOf;
state.open();
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
