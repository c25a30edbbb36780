// SPDX-License-Identifier: Apache-2.0
// What an entity stands on and what it is part of, as a graph: host -> instance, and workload -> pod -> VNF instance.
// The layout is columns from left to right; the worst of many come first.
import { Asking } from "./asking.js";
import { getPages, listIn, query } from "./api.js";
import { exactly } from "./filters.js";
import { html } from "./html.js";
import { number, words } from "./format.js";
import { health, LOOKS } from "./health.js";
import { NAME_FIELD } from "./names.js";
import { askWorkloads, vdusOf } from "./vdus.js";

const MOST = 10;
const ASKED = 200;
const WIDTH = 126;
const GAP = 22;
const HEIGHT = 22;
const PITCH = 28;
const CHARS = 15;

const node = (kind, entity) => ({
  key: `${kind}/${entity.id}`, kind, id: entity.id, name: entity[NAME_FIELD[kind] || "name"] || entity.id, ...health(kind, entity),
});

/** @param at `{as_of}` for the past; empty for the present. */
async function list(path, parameters, at) {
  if (!path) return { rows: [], more: false };
  const found = await getPages(`${path}?${query({ ...parameters, ...at })}`, { most: ASKED });
  return { rows: found[listIn(found)], more: found.more };
}

async function one(path, id, at) {
  if (!path || !id) return null;
  return (await list(path, { ids: encodeURIComponent(id) }, at)).rows[0] ?? null;
}

/** The VNF instances of a namespace that registered the workload. */
async function vnfsOf(kinds, workload, at) {
  if (!workload) return [];
  const { rows } = await list(kinds.vnf_instance, { cluster: exactly(workload.cluster), namespace: exactly(workload.namespace) }, at);
  return rows.filter((vnf) => Object.values(vnf.vdus || {}).some(
    ({ workload: own }) => own.kind === workload.kind && (own.labels
      ? Object.entries(own.labels).every(([key, value]) => workload.labels?.[key] === value)
      : own.name === workload.name)));
}

const READ = {
  async compute_node(kinds, entity, at) {
    const { rows, more } = await list(kinds.instance, { host: exactly(entity.id) }, at);
    return { columns: [[node("compute_node", entity)], rows.map((row) => node("instance", row))], more };
  },
  async instance(kinds, entity, at) {
    const hosts = await Promise.all([...new Set([entity.host, entity.source_host])].filter(Boolean).map((id) => one(kinds.compute_node, id, at)));
    return { columns: [hosts.filter(Boolean).map((host) => node("compute_node", host)), [node("instance", entity)]] };
  },
  async workload(kinds, entity, at) {
    const [{ rows, more }, vnfs] = await Promise.all([list(kinds.pod, { workload_uid: exactly(entity.id) }, at), vnfsOf(kinds, entity, at)]);
    return { columns: [[node("workload", entity)], rows.map((row) => node("pod", row)), vnfs.map((vnf) => node("vnf_instance", vnf))], more };
  },
  async pod(kinds, entity, at) {
    const workload = await one(kinds.workload, entity.workload_uid, at);
    const vnfs = await vnfsOf(kinds, workload, at);
    return { columns: [workload ? [node("workload", workload)] : [], [node("pod", entity)], vnfs.map((vnf) => node("vnf_instance", vnf))] };
  },
  async vnf_instance(kinds, entity, at) {
    const workloads = vdusOf(entity, await askWorkloads(kinds.workload, [entity], at.as_of)).map((vdu) => vdu.workload).filter(Boolean);
    const pods = await Promise.all(workloads.map(({ id }) => list(kinds.pod, { workload_uid: exactly(id) }, at)));
    const owned = pods.flatMap(({ rows }) => rows.map((row) => ({ ...node("pod", row), from: `workload/${row.workload_uid}` })));
    return { columns: [workloads.map((row) => node("workload", row)), owned, [node("vnf_instance", entity)]], more: pods.some(({ more }) => more) };
  },
};

/** Places of the nodes, and the lines between neighbouring columns. */
export function layout(columns) {
  const full = columns.filter((column) => column.length);
  const drawn = full.map((column) => [...column].sort((a, b) => LOOKS.indexOf(a.look) - LOOKS.indexOf(b.look)).slice(0, MOST));
  const rows = Math.max(1, ...drawn.map((column) => column.length));
  const places = new Map();
  drawn.forEach((column, x) => {
    const top = ((rows - column.length) * PITCH) / 2;
    column.forEach((entry, y) => places.set(entry.key, { ...entry, x: x * (WIDTH + GAP), y: top + y * PITCH + 3 }));
  });
  const lines = [];
  for (let x = 1; x < drawn.length; x += 1) {
    for (const to of drawn[x]) {
      for (const from of drawn[x - 1]) {
        if (to.from && to.from !== from.key) continue;
        lines.push([places.get(from.key), places.get(to.key)]);
      }
    }
  }
  const left = full.reduce((all, column) => all + Math.max(0, column.length - MOST), 0);
  return { places: [...places.values()], lines, left, width: full.length * (WIDTH + GAP) - GAP, height: rows * PITCH };
}

const cut = (text) => (text.length > CHARS ? `${text.slice(0, CHARS - 1)}…` : text);

function Line({ from, to }) {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return html`<path class="line" d=${`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} />`;
}

export class Relations extends Asking {
  state = { problem: null, columns: null, more: false };
  every = 15000;

  concerns(row) {
    const { columns } = this.state;
    if (!columns) return false;
    return columns.flat().some(({ key }) => key === `${row.kind}/${row.id}`);
  }

  componentDidUpdate(before) {
    if (before.version !== this.props.version) this.ask();
  }

  async load() {
    const { kind, entity, kinds, asOf } = this.props;
    return { more: false, ...(await READ[kind](kinds, entity, asOf ? { as_of: asOf } : {})) };
  }

  render({ kind, entity, open }, { columns, more }) {
    if (!columns || columns.flat().length < 2) return null;
    const { places, lines, left, width, height } = layout(columns);
    const go = (event, one_) => {
      event.preventDefault();
      open(one_.kind, one_.id);
    };
    return html`
      <h3>Relations</h3>
      <div class="graph">
        <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label="Graph of relations">
          ${lines.map(([from, to]) => html`<${Line} key=${`${from.key} ${to.key}`} from=${from} to=${to} />`)}
          ${places.map((place) => html`
            <a key=${place.key} href=${`#/${place.kind}/${encodeURIComponent(place.id)}`} class=${`node ${place.look}`}
              aria-current=${place.kind === kind && place.id === entity.id ? "true" : null}
              aria-label=${`${words(place.kind)} ${place.name}, ${place.word}`} onClick=${(event) => go(event, place)}>
              <title>${`${words(place.kind)} ${place.name}: ${place.word}`}</title>
              <rect x=${place.x + 0.5} y=${place.y} width=${WIDTH - 1} height=${HEIGHT} rx="4" />
              <circle cx=${place.x + 11} cy=${place.y + HEIGHT / 2} r="3.5" />
              <text x=${place.x + 21} y=${place.y + 15}>${cut(place.name)}</text>
            </a>`)}
        </svg>
      </div>
      ${(left > 0 || more) && html`<p class="note">${left > 0 && `${number(left)} more`}${more && " and further ones"}, not drawn; the worst are.</p>`}`;
  }
}
