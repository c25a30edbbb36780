// SPDX-License-Identifier: Apache-2.0
// The number of entities of each kind, and the places (hosts, clusters, what plugins declare) as tiles with a mark for
// each of their members, problems first.
//
// The marks of one state are one path, so 500 hosts of 20 instances are some 700 shapes and not 10,000. States
// differ in shape and not in colour alone.
import { Component, createRef, html, Pure, Trouble } from "./html.js";
import { filterOf } from "./filters.js";
import { Found } from "./found.js";
import { clock, number, words } from "./format.js";
import { isProblem, look, LOOKS } from "./health.js";
import { addressOf } from "./router.js";
import { rove, settleIn } from "./roving.js";
import { stateField } from "./schema.js";

const MEANINGS = { good: "active", busy: "in change", off: "off", unknown: "unknown", warn: "degraded", bad: "error" };
const ACROSS = 10; // rows of ten can be counted at a glance
const PITCH = 12;
const MOST = 60;
const AGAIN = 30000; // after a failure
const LETTER = 12; // the width of the letter of a kind, before its marks

/** A mark of 9 x 9 at (x, y). */
const MARKS = {
  bad: (x, y) => `M${x + 4.5} ${y - 1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`,
  warn: (x, y) => `M${x + 4.5} ${y}l4.5 9h-9z`,
  busy: (x, y) => `M${x} ${y}h9v9h-9zM${x + 2} ${y + 2}v5h5v-5z`,
  off: (x, y) => `M${x + 2} ${y + 2}h5v5h-5z`,
  unknown: (x, y) => `M${x} ${y + 4}h9v1h-9z`,
  good: (x, y) => `M${x} ${y}h9v9h-9z`,
};

function byLook(states) {
  const sums = {};
  for (const [state, n] of Object.entries(states)) sums[look(state)] = (sums[look(state)] || 0) + n;
  return sums;
}

function sum(states) {
  let all = 0;
  for (const n of Object.values(states)) all += n;
  return all;
}

/** Whether a place and all its members are well. */
const isWell = ({ level, members }) => level === "ok" && !Object.values(members).flatMap(Object.keys).some(isProblem);

/** Kind of members -> the first letter of its name that no kind before it has. */
function lettersOf(groups) {
  const letters = {};
  for (const [kind, states] of groups.flatMap((group) => Object.entries(group.members))) {
    if (sum(states)) letters[kind] ??= [...kind.toUpperCase()].find((one) => !Object.values(letters).includes(one)) ?? "?";
  }
  return letters;
}

function Marks({ states, letter }) {
  if (!sum(states)) return null;
  const sums = byLook(states);
  const paths = [];
  let at = 0;
  for (const name of LOOKS) {
    let path = "";
    for (let i = 0; i < (sums[name] || 0) && at < MOST; i += 1, at += 1) {
      path += MARKS[name]((at % ACROSS) * PITCH + LETTER + 1, Math.floor(at / ACROSS) * PITCH + 1);
    }
    if (path) paths.push(html`<path key=${name} class=${name} d=${path} />`);
  }
  const height = Math.ceil(at / ACROSS) * PITCH + 1;
  const width = ACROSS * PITCH + LETTER + 1;
  return html`<svg class="marks" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true">
    <text y="10">${letter}</text>${paths}
  </svg>`;
}

/** What a screen reader says of the members: "20 instances: 18 active, 2 error". */
function told(members, names) {
  return Object.entries(members)
    .map(([kind, states]) => {
      const parts = Object.entries(states).map(([state, n]) => `${n} ${state || "not known"}`);
      return `${names.count(sum(states), kind)}${parts.length ? `: ${parts.join(", ")}` : ""}`;
    })
    .join("; ");
}

const RESOURCES = { vcpus: ["vCPU", "vCPUs"], memory_mb: ["RAM", "MiB of memory"], disk_gb: ["disk", "GiB of disk"] };

/** What the instances of a host use of it, in short and in full; a host that gives nothing has no percentage. */
function usage({ capacity }) {
  const known = Object.entries(capacity || {}).filter(([, { total }]) => total > 0);
  return {
    short: known.map(([name, { used, total }]) => `${RESOURCES[name][0]} ${Math.round((100 * used) / total)} %`).join(" · "),
    full: known.map(([name, { used, total }]) => `${number(used)} of ${number(total)} ${RESOURCES[name][1]} used`).join(", "),
  };
}

class Tile extends Pure {
  shouldComponentUpdate(props) {
    return props.selected !== this.props.selected || props.signature !== this.props.signature;
  }

  render({ entry, kind, names, letters, zoned, selected, open }) {
    const well = isWell(entry);
    const { short, full } = usage(entry);
    const listed = Object.entries(entry.listed_by).map(([by, all]) => `${all.length === 1 ? words(by) : names.plural(by)} ${all.join(", ")}`);
    const within = [entry.zone && `zone ${entry.zone}`, ...listed].filter(Boolean).join("; ");
    const belongs = [!zoned && entry.zone, ...Object.values(entry.listed_by).flat()].filter(Boolean).join(" · ");
    return html`
      <li>
        <button type="button" tabindex="-1" class=${`tile ${entry.level}`} aria-current=${selected ? "true" : null}
          data-id=${entry.id} onClick=${() => open(kind, entry.id)} title=${[entry.id, within, full, ...entry.problems].filter(Boolean).join(" · ")}>
          <span class="tile-head">
            <span class="tile-name">${entry.name || entry.id}</span>
            <span class="sr">, ${told(entry.members, names)}${entry.problems.length > 0 && ";"}${well && "; all well"}${full && `; ${full}`}${within && `; ${within}`} </span>
            ${well && html`<span class="well" aria-hidden="true">✓</span>`}
            <span class="tile-count" aria-hidden="true">${number(Object.values(entry.members).reduce((all, states) => all + sum(states), 0))}</span>
          </span>
          ${Object.entries(entry.members).map(([name, states]) => html`<${Marks} key=${name} states=${states} letter=${letters[name]} />`)}
          ${short && html`<span class="tile-capacity" aria-hidden="true">${short}</span>`}
          ${belongs && html`<span class="tile-belongs" aria-hidden="true">${belongs}</span>`}
          ${entry.problems.length > 0 && html`<span class="tile-problems">${entry.problems.join(" · ")}</span>`}
        </button>
      </li>`;
  }
}

/** Each zone with how many of its places are available; it leads to their list. */
function Zones({ zones, kind, table }) {
  return html`<ul class="zones" aria-label="Zones">
    ${zones.map(({ zone, total, down, disabled }) => html`<li key=${zone}>
      ${zone ? html`<a class="link" tabindex="-1" href=${table(kind, { q: filterOf("availability_zone", zone) })}>${zone}</a>` : "without a zone"}
      ${" "}${number(total - down - disabled)} of ${number(total)} available${
        down > 0 && html`, <span class="state bad">${number(down)} down</span>`}${
        disabled > 0 && html`, <span class="state warn">${number(disabled)} disabled</span>`}</li>`)}
  </ul>`;
}

class Group extends Pure {
  tiles(entries, zoned) {
    const { group, names, letters, selected, open } = this.props;
    const shown = JSON.stringify([letters, zoned]);
    return html`<ul class="tiles">
      ${entries.map(
        (entry) => html`<${Tile} key=${entry.id} entry=${entry} kind=${group.kind} names=${names} letters=${letters} zoned=${zoned} open=${open}
          signature=${shown + JSON.stringify(entry)} selected=${selected === `${group.kind}/${entry.id}`} />`,
      )}
    </ul>`;
  }

  zone(zone, entries) {
    const its = entries.filter((entry) => entry.zone === zone);
    return its.length > 0 && html`<h4 class="rule" key=${zone}>${zone ?? "Without a zone"} <span class="figure">${number(its.length)}</span></h4>${this.tiles(its, true)}`;
  }

  render({ group, names, table }) {
    const title = names.title(group.kind);
    const zones = group.zones.some(({ zone }) => zone) ? group.zones : [];
    const troubled = group.entries.filter((entry) => entry.level !== "ok");
    const others = group.entries.filter((entry) => entry.level === "ok");
    const lost = Object.entries(group.unplaced).filter(([, states]) => sum(states) > 0);
    return html`
      <div class="group">
        ${zones.length > 0 && html`<h3 class="rule">Zones of ${names.plural(group.kind)}</h3>
          <${Zones} zones=${zones} kind=${group.kind} table=${table} />`}
        ${troubled.length > 0 &&
        html`<h3 class="rule">${title} with problems <span class="figure">${number(group.troubled)}</span></h3>
          ${this.tiles(troubled)}`}
        ${others.length > 0 &&
        html`<h3 class="rule">${troubled.length ? `Other ${names.plural(group.kind)}` : title}
            <span class="figure">${number(group.total - group.troubled)}</span>
            ${others.every(isWell) && html`<span class="good">all well</span>`}</h3>
          ${zones.length ? zones.map(({ zone }) => this.zone(zone, others)) : this.tiles(others)}`}
        ${group.more > 0 && html`<p class="more">${number(group.more)} more, not drawn. Search to find one of them.</p>`}
        ${lost.map(
          ([kind, states]) =>
            html`<p class="more" key=${kind}>${names.count(sum(states), kind)} without a place.</p>`,
        )}
      </div>`;
  }
}

/** How many entities each kind has, by state, worst first, with the list of each, and of each state with problems. */
class Kinds extends Component {
  state = { fields: {} };

  componentDidMount() {
    this.componentDidUpdate();
  }

  /** By which field the lists are filtered, of the kinds that have problems. */
  componentDidUpdate() {
    const { counts, names } = this.props;
    for (const [kind, states] of Object.entries(counts)) {
      if (this.asked.has(kind) || !names.paths[kind] || !Object.keys(states).some(isProblem)) continue;
      this.asked.add(kind);
      const learn = (field) => this.setState(({ fields }) => ({ fields: { ...fields, [kind]: field } }));
      stateField(names.paths[kind]).then(learn, () => setTimeout(() => this.asked.delete(kind), AGAIN)); // without it, a number is no link
    }
  }

  asked = new Set();

  render({ counts, names, table }, { fields }) {
    const kinds = Object.entries(counts).filter(([, states]) => sum(states) > 0);
    const rank = ([state]) => LOOKS.indexOf(look(state));
    const counted = (kind, state, n) => {
      const text = `${number(n)} ${state || "not known"}`;
      if (!fields[kind] || !isProblem(state)) return html`<span key=${state} class=${`state ${look(state)}`}>${text}</span>`;
      return html`<a key=${state} tabindex="-1" class=${`state ${look(state)}`} href=${table(kind, { q: filterOf(fields[kind], state) })}>${text}</a>`;
    };
    return html`<ul class="kinds" aria-label="Kinds" onKeyDown=${(event) => rove(event, ".kinds a")}>${kinds.map(([kind, states]) => {
      const parts = Object.entries(states).sort((a, b) => rank(a) - rank(b) || b[1] - a[1]);
      const stateless = parts.length === 1 && !parts[0][0];
      return html`<li key=${kind} data-kind=${kind}>
        <a class="link" tabindex="-1" href=${table(kind)}>${names.title(kind)}</a>
        ${" "}<b>${number(sum(states))}</b>${!stateless && parts.map(([state, n], i) => html`${i ? ", " : ": "}${counted(kind, state, n)}`)}
      </li>`;
    })}</ul>`;
  }
}

/** Of which kind a row of marks is, and how the entity of a mark is. */
function Legend({ letters, names }) {
  return html`<ul class="legend letters" aria-label="Kinds of marks">
    ${Object.entries(letters).map(([kind, letter]) => html`<li key=${kind}><b>${letter}</b> ${names.plural(kind)}</li>`)}
  </ul>
  <ul class="legend" aria-label="Legend">
    ${[...LOOKS].reverse().map(
      (name) => html`<li key=${name}><svg width="11" height="11" viewBox="0 0 11 11" class="marks" aria-hidden="true">
        <path class=${name} d=${MARKS[name](1, 1)} /></svg>${MEANINGS[name]}</li>`,
    )}
    <li><span class="well" aria-hidden="true">✓</span> all well</li>
  </ul>`;
}

/** That the topology is missing or old, and when the page asks again. */
function Retry({ problem, retry, topology, again }) {
  return html`<p class="problem retry" role="alert">${problem.message}. ${topology && "What you see is older. "}The page asks
    again at ${clock(retry)}. <button type="button" onClick=${again}>Ask now</button></p>`;
}

export class Topology extends Pure {
  box = createRef();

  walk = (event) => [".tile", ".zones a"].forEach((part) => rove(event, part));

  componentDidMount() {
    this.componentDidUpdate();
  }

  componentDidUpdate() {
    for (const part of [".kinds a", ".zones a", ".tile"]) settleIn(this.box.current, part);
  }

  render({ topology, problem, retry, again, pending, search, found, foundProblem, selected, open, searchFor, names, asOf }) {
    const groups = (topology?.groups || []).filter((group) => group.total > 0);
    const letters = lettersOf(groups);
    const counts = (!search && topology?.kinds) || {};
    const table = (kind, more) => addressOf({ view: "table", rest: kind, settings: { ...more, ...(asOf && { as_of: asOf }) } });
    const nothing = topology && !groups.length && !Object.values(counts).some((states) => sum(states) > 0);
    return html`
      <section class="topology pane" aria-labelledby="topology-title">
        <header class="pane-head">
          <h2 id="topology-title">Topology ${pending && html`<span class="note" role="status">Loading…</span>`}</h2>
          <${Legend} letters=${letters} names=${names} />
          <label class="search">
            <span class="sr">Search by name or id</span>
            <input id="search" type="search" placeholder="Search by name" autocomplete="off" spellcheck="false" maxlength="255"
              value=${search} aria-keyshortcuts="/" onInput=${(event) => searchFor(event.target.value)} />
          </label>
        </header>
        ${problem && retry && html`<${Retry} problem=${problem} retry=${retry} topology=${topology} again=${again} />`}
        ${problem && !retry && html`<${Trouble} problem=${problem} refused="Hosts and clusters are for administrators." />`}
        <div class="pane-body" aria-busy=${pending ? "true" : null} ref=${this.box} onKeyDown=${this.walk}>
          ${search && html`<${Found} found=${found} problem=${foundProblem} open=${open} />`}
          ${!topology && !problem && html`<p class="none">Loading…</p>`}
          ${nothing && !found?.results.length && html`<p class="none">${search ? "Nothing has such a name." : "Nothing is known yet."}</p>`}
          <${Kinds} counts=${counts} names=${names} table=${table} />
          ${groups.map(
            (group) => html`<${Group} key=${group.kind} group=${group} names=${names} letters=${letters} table=${table}
              selected=${selected} open=${open} />`,
          )}
        </div>
      </section>`;
  }
}
