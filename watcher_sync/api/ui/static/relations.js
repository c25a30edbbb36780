// SPDX-License-Identifier: Apache-2.0
// What an entity needs and what depends on it, as the API's graph has it: what it needs on the left, its dependents on
// the right, a column for each step. The worst of many come first. What no drawing has room for is counted below it.
import { Asking } from "./asking.js";
import { get, query } from "./api.js";
import { filterOf } from "./filters.js";
import { createRef, html, Pure } from "./html.js";
import { number, words } from "./format.js";
import { Refs } from "./names.js";
import { addressOf } from "./router.js";
import { rove, settleIn } from "./roving.js";

const STEPS = 2;
const ASKED = 100;
const MOST = 10;
const WIDTH = 126;
const GAP = 22;
const HEIGHT = 22;
const PITCH = 28;
const CHARS = 14;
const FITS = 3 * (WIDTH + GAP); // as wide as can shrink into the pane and be read; what is wider scrolls

const LOOK_OF = { error: "bad", warning: "warn", changing: "busy", unknown: "unknown", off: "off", ok: "good" };

const keyOf = ({ kind, id }) => `${kind}/${id}`;
const total = (numbers) => Object.values(numbers).reduce((all, n) => all + n, 0);
const called = (node) => node.name || node.id;
const word = ({ state, health }) => state || (health === "ok" ? "" : health);

/** Places of the nodes, and the lines between them. */
export function layout({ nodes, edges }) {
  const columns = new Map();
  for (const node of nodes) {
    const step = node.direction === "needs" ? -node.depth : node.depth;
    columns.set(step, [...(columns.get(step) || []), node]);
  }
  const drawn = [...columns].sort(([a], [b]) => a - b).map(([, column]) => column.slice(0, MOST));
  const rows = Math.max(...drawn.map((column) => column.length));
  const places = new Map();
  drawn.forEach((column, x) => {
    const top = ((rows - column.length) * PITCH) / 2;
    column.forEach((node, y) => places.set(keyOf(node), { ...node, x: x * (WIDTH + GAP), y: top + y * PITCH + 3 }));
  });
  const lines = new Map();
  for (const edge of edges) {
    const [dependent, needed] = [places.get(edge.from), places.get(edge.to)];
    const key = `${edge.from} ${edge.relation} ${edge.to}`; // several fields may say the same
    if (dependent && needed) lines.set(key, { ...edge, key, dependent, needed });
  }
  return {
    places: [...places.values()],
    lines: [...lines.values()],
    width: drawn.length * (WIDTH + GAP),
    height: rows * PITCH,
  };
}

const cut = (text) => (text.length > CHARS ? `${text.slice(0, CHARS - 1)}…` : text);

/** From the dependent to what it needs; two of one column are connected at their right side. */
function Line({ line: { dependent, needed, relation } }) {
  const [left, right] = dependent.x <= needed.x ? [dependent, needed] : [needed, dependent];
  const aside = left.x === right.x;
  const [x1, y1, x2, y2] = [left.x + WIDTH, left.y + HEIGHT / 2, right.x + (aside ? WIDTH : 0), right.y + HEIGHT / 2];
  const middle = aside ? x1 + GAP : (x1 + x2) / 2;
  return html`<path class="line" d=${`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`}>
    <title>${`${called(dependent)} ${words(relation)} ${called(needed)}`}</title></path>`;
}

/** How many of a kind depend on an entity, directly or through others, with the lists of the direct ones. */
function Dependents({ kind, id, of, health, names, asOf }) {
  const wrong = Object.entries(health).filter(([name]) => name !== "ok" && name !== "off");
  const fields = names.fieldsTo(of, kind);
  const address = (field) => addressOf({ view: "table", rest: of, settings: { q: filterOf(field, id), ...(asOf && { as_of: asOf }) } });
  return html`<div><dt>${names.title(of)}</dt>
    <dd>${number(total(health))}${wrong.map(([name, n]) => html`, <span class=${`state ${LOOK_OF[name]}`}>${number(n)} ${name}</span>`)}
      ${fields.map((field) => html` · <a key=${field} class="link" href=${address(field)}>${fields.length > 1 ? `by ${words(field)}` : "list"}<span class="sr"> of ${names.plural(of)}</span></a>`)}</dd></div>`;
}

/** Properties: kind, id, names, version, open, watch, asOf. */
export class Relations extends Asking {
  state = { problem: null, graph: null, impact: null };
  every = 15000;
  box = createRef();

  concerns(row) {
    return Boolean(this.state.graph?.nodes.some((node) => node.kind === row.kind && node.id === row.id));
  }

  componentDidUpdate(before) {
    if (before.version !== this.props.version || before.asOf !== this.props.asOf) this.ask();
    settleIn(this.box.current, ".member");
  }

  async load() {
    const { kind, id, asOf } = this.props;
    const asked = { root: `${kind}/${id}`, ...(asOf && { as_of: asOf }) };
    const [graph, impact] = await Promise.all([
      get(`v1/graph?${query({ ...asked, depth: STEPS, limit: ASKED })}`),
      get(`v1/impact?${query(asked)}`),
    ]);
    return { graph, impact };
  }

  /** The entities at the other ends of the root's own edges: relation -> kind -> ids. */
  needed({ root, edges, nodes }) {
    const found = new Map();
    for (const { from, to, relation } of edges) {
      const node = from === root && nodes.find((one) => keyOf(one) === to);
      if (!node) continue;
      const key = `${relation} ${node.kind}`;
      if (!found.has(key)) found.set(key, { key, relation, kind: node.kind, ids: [] });
      if (!found.get(key).ids.includes(node.id)) found.get(key).ids.push(node.id);
    }
    return [...found.values()];
  }

  render({ kind, id, names, open, asOf }, { graph, impact, problem }) {
    if (problem) return problem.status === 404 ? null : html`<h3>Relations</h3><p class="problem">${problem.message}</p>`;
    if (!graph) return null;
    const needed = this.needed(graph);
    const kinds = Object.keys(impact.health).filter((of) => total(impact.health[of]) > 0);
    const near = graph.nodes.filter((node) => node.direction === "dependents" && node.depth === 1);
    return html`
      ${graph.nodes.length > 1 && html`<h3>Relations</h3><${Graph} graph=${graph} open=${open} />`}
      ${needed.length > 0 && html`<dl class="fields needs">${needed.map(({ key, relation, kind: of, ids }) => html`<div key=${key}>
        <dt>${words(relation)}</dt><dd><${Refs} kind=${of} value=${ids} names=${names} open=${open} /></dd></div>`)}</dl>`}
      ${kinds.length > 0 && html`<h3>What depends on it</h3>
        <dl class="fields impact">${kinds.map((of) => html`<${Dependents} key=${of} kind=${kind} id=${id} of=${of}
          health=${impact.health[of]} names=${names} asOf=${asOf} />`)}</dl>
        <ul class="members" ref=${this.box} onKeyDown=${(event) => rove(event, ".member")}>
          ${near.map((node) => html`<li key=${keyOf(node)}>
            <button type="button" tabindex="-1" class="member" onClick=${() => open(node.kind, node.id)}>
              <span class="name">${called(node)}</span>
              ${kinds.length > 1 && html`<span class="kind">${words(node.kind)}</span>`}
              <span class=${`state ${LOOK_OF[node.health]}`}>${word(node)}</span>
            </button></li>`)}
        </ul>`}`;
  }
}

class Graph extends Pure {
  box = createRef();

  /** A wide graph begins at what is open. */
  componentDidMount() {
    const box = this.box.current;
    const root = box.querySelector("[aria-current] rect").getBoundingClientRect();
    const { left, width } = box.getBoundingClientRect();
    box.scrollLeft += root.left + root.width / 2 - left - width / 2;
  }

  render({ graph, open }) {
    const { places, lines, width, height } = layout(graph);
    const undrawn = { ...graph.more };
    const drawn = new Set(places.map(keyOf));
    for (const node of graph.nodes) if (!drawn.has(keyOf(node))) undrawn[node.kind] = (undrawn[node.kind] || 0) + 1;
    const left = total(undrawn);
    const said = (place) => lines.filter(({ dependent }) => dependent === place).map(({ relation, needed }) => `, ${words(relation)} ${called(needed)}`);
    const go = (event, { kind, id }) => {
      event.preventDefault();
      open(kind, id);
    };
    return html`
      <div class="graph" ref=${this.box}>
        <svg class=${width > FITS ? null : "fits"} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label="Graph of relations">
          ${lines.map((line) => html`<${Line} key=${line.key} line=${line} />`)}
          ${places.map((place) => html`
            <a key=${keyOf(place)} href=${`#/${place.kind}/${encodeURIComponent(place.id)}`} class=${`node ${LOOK_OF[place.health]}`}
              aria-current=${place.direction === "root" ? "true" : null} onClick=${(event) => go(event, place)}
              aria-label=${`${words(place.kind)} ${called(place)}, ${word(place)}${said(place).join("")}`}>
              <title>${`${words(place.kind)} ${called(place)}: ${word(place)}`}</title>
              <rect x=${place.x + 0.5} y=${place.y} width=${WIDTH - 1} height=${HEIGHT} rx="4" />
              <circle cx=${place.x + 11} cy=${place.y + HEIGHT / 2} r="3.5" />
              <text x=${place.x + 21} y=${place.y + 15}>${cut(called(place))}</text>
            </a>`)}
        </svg>
      </div>
      ${left > 0 && html`<p class="note">${number(left)} more, not drawn; the worst are.</p>`}`;
  }
}
