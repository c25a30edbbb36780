// SPDX-License-Identifier: Apache-2.0
// The entities of any kind in a table, with the filters of the API and of the command line.
import { html, Pure } from "./html.js";
import { isObject, isTime, plain } from "./format.js";
import { health, hasHealth, HEALTHS, LOOKS } from "./health.js";
import { Listing } from "./listing.js";
import { Ref, Refs } from "./names.js";
import { recall, remember } from "./remembered.js";
import { Time } from "./times.js";

const COLUMNS = {
  instance: ["host", "flavor_name", "project_id", "updated_at"],
  compute_node: ["status", "availability_zone", "vcpus", "memory_mb", "last_heard"],
  cluster: ["version", "last_sync_at", "detail"],
  workload: ["kind", "namespace", "cluster", "replicas", "ready_replicas", "labels"],
  pod: ["phase", "ready", "restarts", "node", "namespace", "cluster", "created_at"],
  vnf_instance: ["cluster", "namespace", "vnfd_id", "scale_level", "observed_at"],
  service_type_instance: ["service_type", "provider_id", "provider_state", "status_message", "updated_at"],
  provider: ["service_type", "reason", "updated_at"],
  aggregate: ["availability_zone", "hosts", "metadata"],
};
const UNSHOWN = new Set(["id", "seq", "state", "status", "phase", "name", "_links"]);
const MOST = 6;
const IDS = 3; // of a list of references
const LONG = 12; // characters of an id that is shown in short

/** The health of an entity in a list: a word, and the reason of a problem. */
export function Health({ kind, entity }) {
  const { look, why, meaning } = health(kind, entity);
  const wrong = ["bad", "warn"].includes(look) && (why || meaning);
  return html`<span class=${`state ${look}`} title=${why || meaning || null}>${HEALTHS[look]}</span>${wrong && html`<span class="sub">${wrong.split(". ")[0].replace(/\.$/, "")}</span>`}`;
}

/** Select what is before the button and copy it: without TLS, a browser has no other clipboard. */
function copy(event) {
  getSelection().selectAllChildren(event.currentTarget.previousSibling);
  document.execCommand("copy");
}

/** The document has the whole id, whatever the style shows of it: so it is selected, copied and read aloud whole. */
function Id({ text, name }) {
  if (!name && text.length <= LONG) return html`<code>${text}</code>`;
  return html`<span class="short">${name && html`<span title=${text}>${name} </span>`}<code class=${name ? "sr" : null} title=${text}>${text}</code><button type="button" class="copy" tabindex="-1"
    aria-label=${`Copy ${text}`} title="Copy" onClick=${copy}><svg width="11" height="11" viewBox="0 0 11 11" aria-hidden="true"><path d="M3.5 3.5h7v7h-7zM.5 7.5v-7h7" /></svg></button></span>`;
}

function Pairs({ value }) {
  return html`<span class="labels" title=${plain(value)}>${Object.entries(value).map(([name, one]) => html`<span key=${name}><i>${name}</i>=${plain(one)}</span>`)}</span>`;
}

export function Cell({ kind, field, value, names, open }) {
  const reference = names.reference(kind, field);
  if (reference && value?.length) return html`<${Refs} kind=${reference.kind} others=${reference.or_kinds} value=${value} names=${names} open=${open} most=${IDS} />`;
  if (isTime(value)) return html`<${Time} value=${value} />`;
  if (isObject(value)) return Object.keys(value).length ? html`<${Pairs} value=${value} />` : "—";
  const text = plain(value);
  const project = names.project(field, value);
  return /(^|_)(id|uid)$/.test(field) && text !== "—" ? html`<${Id} text=${text} name=${project} />` : text;
}

/** The first columns of every list: what it is called, its state, and its health. */
export const leading = (kind, names, open, entity) => {
  const name = entity && names.fields[kind] in entity ? names.fields[kind] : "id";
  const first = { field: name, title: name === "id" ? "id" : "name",
    cell: (row) => html`<${Ref} kind=${kind} id=${row.id} name=${row[name] || row.id} names=${names} open=${open} />` };
  const field = ["state", "status", "phase"].find((one) => entity && one in entity) ?? "health";
  if (!entity || !hasHealth(kind, entity)) return [first];
  const how = { field: "health", title: "health", cell: (row) => html`<${Health} kind=${kind} entity=${row} />` };
  if (field === "health") return [first, how];
  return [first, { field, title: "state", cell: (row) => health(kind, row).word }, how];
};

/** The problems first. The lists of the API have no such order: no index has the severity of a state. */
export const worstFirst = (kind) => (rows) => {
  const rank = new Map(rows.map((row) => [row, hasHealth(kind, row) ? LOOKS.indexOf(health(kind, row).look) : 0]));
  return [...rows].sort((a, b) => rank.get(a) - rank.get(b));
};

const chosenColumns = () => recall("columns") ?? {};

export class Table extends Pure {
  /** All columns, each with whether it is shown; the leading ones are not to choose. */
  columns = (rows) => {
    const { kind, names, open } = this.props;
    const row = rows[0] || {};
    const refers = (field) => Boolean(names.reference(kind, field));
    const others = Object.keys(row).filter((field) => !UNSHOWN.has(field) && field !== names.fields[kind]);
    const usual = COLUMNS[kind] || [...others].sort((a, b) => refers(b) - refers(a)).slice(0, MOST);
    const chosen = chosenColumns()[kind] ?? usual;
    const fields = [...new Set([...usual, ...others])].filter((field) => usual.includes(field) || field in row);
    const cell = (field) => (one) => html`<${Cell} kind=${kind} field=${field} value=${one[field]} names=${names} open=${open} />`;
    return [
      ...leading(kind, names, open, row),
      ...fields.map((field) => ({ field, cell: cell(field), optional: true, shown: chosen.includes(field) })),
    ];
  };

  choose = (fields) => {
    remember("columns", { ...chosenColumns(), [this.props.kind]: fields });
    this.setState({});
  };

  settings = (parameters) => this.props.show(this.props.kind, parameters);

  render({ kind, kinds, names, settings, watch, show, total, counts }) {
    const isEmpty = (name) => Boolean(counts) && !Object.keys(counts[name] ?? {}).length;
    const listed = Object.keys(kinds).sort((a, b) => isEmpty(a) - isEmpty(b));
    return html`
      <section class="table pane" aria-labelledby="table-title">
        <header class="pane-head">
          <h2 id="table-title">Table</h2>
          <label>Kind <select id="kind" value=${kind} onChange=${(event) => show(event.target.value, {})}>
            ${listed.map((name) => html`<option key=${name} value=${name} selected=${name === kind}>${names.plural(name)}</option>`)}
          </select></label>
        </header>
        <div class="pane-body">
          <${Listing} kind=${kind} path=${kinds[kind]} names=${names} columns=${this.columns} choose=${this.choose} watch=${watch}
            arrange=${worstFirst(kind)} total=${total} settings=${settings} onSettings=${this.settings} />
        </div>
      </section>`;
  }
}
