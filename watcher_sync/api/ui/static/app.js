// SPDX-License-Identifier: Apache-2.0
// The page as a whole: its bar, its panes, its keys. What is open is told by the address (#/kind/id), so it can be sent
// to somebody, and the browser's Back closes it.
import { html, Component, Pure, render } from "./html.js";
import { token } from "./api.js";
import { Changes } from "./changes.js";
import { Entity } from "./entity.js";
import { clock, count, number } from "./format.js";
import { Quarantine } from "./quarantine.js";
import { Rate } from "./rate.js";
import { Sources } from "./sources.js";
import { State } from "./state.js";
import { mayList, Subscriptions } from "./subscriptions.js";
import { Topology } from "./topology.js";

const state = new State();
const THEMES = ["auto", "light", "dark"];
const VIEWS = ["topology", "changes", "subscriptions", "quarantine"];

function opened() {
  const [, kind, id] = location.hash.split("/");
  if (!kind || !id) return null;
  try {
    return { kind, id: decodeURIComponent(id) };
  } catch {
    return null;
  }
}

const open = (kind, id) => {
  location.hash = `#/${kind}/${encodeURIComponent(id)}`;
};

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

class Token extends Component {
  state = { text: "" };

  send = (event) => {
    event.preventDefault();
    if (!this.state.text.trim()) return;
    state.signIn(this.state.text.trim());
    this.setState({ text: "" });
  };

  render({ needed }, { text }) {
    if (!needed) {
      if (!token()) return null;
      return html`<button type="button" class="link" onClick=${() => state.signIn("")}>Forget token</button>`;
    }
    return html`<form class="token" onSubmit=${this.send}>
      <label for="token">Keystone token</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" value=${text}
        aria-describedby="token-why" onInput=${(event) => this.setState({ text: event.target.value })} />
      <button type="submit">Use</button>
      <span id="token-why">${token() ? "The token was refused." : "The data needs a token. It is kept in this tab only."}</span>
    </form>`;
  }
}

class Live extends Pure {
  render({ live, seq }) {
    const words = { live: "Live", waiting: "Connecting", lost: "Disconnected", refused: "Not live" };
    const why = live.state === "lost" ? ` since ${clock(live.since)}` : "";
    return html`<div class=${`connection ${live.state}`}>
      <span class="lamp" aria-hidden="true"></span>
      <span role="status">${words[live.state]}${why}</span>
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

function Figures({ topology }) {
  const groups = topology?.groups || [];
  const parts = [];
  for (const group of groups) {
    if (!group.total) continue;
    parts.push(count(group.total, group.kind === "compute_node" ? "host" : group.kind));
    for (const [kind, states] of Object.entries(group.members)) {
      parts.push(count(Object.values(states).reduce((all, n) => all + n, 0), kind));
    }
  }
  const troubled = groups.reduce((all, group) => all + group.troubled, 0);
  return html`<p class="figures">${parts.join(" · ")}
    ${troubled > 0 && html`<strong>${troubled === 1 ? "1 with problems" : `${number(troubled)} with problems`}</strong>`}</p>`;
}

class App extends Component {
  state = { opened: opened(), view: "topology" };

  componentDidMount() {
    window.addEventListener("hashchange", this.turned);
    window.addEventListener("keydown", this.pressed);
    document.addEventListener("visibilitychange", () => document.hidden || state.askTopology());
    state.drawWith(() => this.forceUpdate());
  }

  turned = () => {
    const before = this.state.opened;
    const now = opened();
    if (now && !before) this.from = document.activeElement;
    this.setState({ opened: now }, () => {
      if (now || !this.from) return;
      const back = this.from.isConnected ? this.from : document.querySelector(`.tile[tabindex="0"]`);
      back?.focus();
      this.from = null;
    });
  };

  close = () => {
    // A step of its own in the browser's history: Back opens what was closed.
    history.pushState(null, "", location.pathname + location.search);
    this.turned();
  };

  pressed = (event) => {
    const typing = event.target.closest?.("input");
    if (event.key === "Escape") {
      if (typing && typing.value) return; // the search field empties itself first
      if (this.state.opened) this.close();
      else typing?.blur();
    } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.setState({ view: "topology" }, () => document.getElementById("search").focus());
    }
  };

  render(_, { opened, view }) {
    const alarming = state.quarantine?.quarantine.length || 0;
    const listed = mayList(state.subscriptions, state.subscriptionsProblem);
    const selected = opened && `${opened.kind}/${opened.id}`;
    return html`
      <header class="bar">
        <h1>watcher_sync</h1>
        <${Figures} topology=${state.topology} />
        <${Live} live=${state.live} seq=${state.seq} />
        <${Token} needed=${state.needsToken} />
        <${Theme} />
      </header>
      ${state.live.state === "lost" && html`<${Lost} live=${state.live} />`}
      <${Sources} sources=${state.sources} inventories=${state.inventories} problem=${state.sourcesProblem} at=${state.sourcesAt} />
      <nav class="views" aria-label="Views">
        ${VIEWS.filter((name) => name !== "subscriptions" || listed).map(
          (name) => html`<button key=${name} type="button" aria-pressed=${String(view === name)}
            onClick=${() => this.setState({ view: name })}>${name}${
              name === "quarantine" && alarming > 0 && html`<span class="figure alarming">${number(alarming)}</span>`
            }</button>`,
        )}
      </nav>
      <main id="main" tabindex="-1" class=${`view-${view}${opened ? " with-entity" : ""}`}>
        <div class="front">
          <${Topology} topology=${state.topology} problem=${state.topologyProblem} search=${state.search}
            selected=${selected} open=${open} searchFor=${this.searchFor} />
          <${Subscriptions} subscriptions=${state.subscriptions} problem=${state.subscriptionsProblem}
            at=${state.subscriptionsAt} nameOf=${this.nameOf} named=${state.named} open=${open} />
        </div>
        <div class="side">
          <${Rate} source=${this.rates} />
          <${Changes} changes=${state.latest()} nameOf=${this.nameOf} named=${state.named} open=${open} live=${state.live} />
          <${Quarantine} quarantine=${state.quarantine} problem=${state.quarantineProblem} />
        </div>
        ${opened &&
        html`<${Entity} key=${`${state.session} ${selected}`} kind=${opened.kind} id=${opened.id} path=${state.kinds[opened.kind]}
          paths=${state.kinds} watch=${this.watch} open=${open} close=${this.close} />`}
      </main>`;
  }

  searchFor = (text) => state.searchFor(text);
  nameOf = (kind, id) => state.nameOf(kind, id);
  watch = (watcher) => state.watch(watcher);
  rates = () => ({ rates: state.rates, from: state.ratesFrom });
}

state.open();
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
