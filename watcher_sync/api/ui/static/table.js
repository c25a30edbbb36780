// SPDX-License-Identifier: Apache-2.0
// The entities of any kind in a table, with the filters of the API and of the command line.
import { html, Pure } from "./html.js";
import { isTime, plain } from "./format.js";
import { health, hasHealth, HEALTHS } from "./health.js";
import { Listing } from "./listing.js";
import { Ref, Refs } from "./names.js";
import { Time } from "./times.js";

const COLUMNS = {
  instance: ["host", "power_state", "flavor_name", "project_id", "updated_at"],
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

/** The health of an entity in a list: a word, and the reason of a problem. */
export function Health({ kind, entity }) {
  const { look, why, meaning } = health(kind, entity);
  const wrong = ["bad", "warn"].includes(look) && (why || meaning);
  return html`<span class=${`state ${look}`} title=${why || meaning || null}>${HEALTHS[look]}</span>${wrong && html`<span class="sub">${wrong.split(". ")[0].replace(/\.$/, "")}</span>`}`;
}

function Pairs({ value }) {
  return html`<span class="labels">${Object.entries(value).map(([name, one]) => html`<span key=${name}><i>${name}</i>=${plain(one)}</span>`)}</span>`;
}

export function Cell({ kind, field, value, names, open }) {
  const reference = names.reference(kind, field);
  if (reference && value?.length) return html`<${Refs} kind=${reference.kind} value=${value} names=${names} open=${open} most=${IDS} />`;
  if (isTime(value)) return html`<${Time} value=${value} />`;
  if (value && typeof value === "object" && !Array.isArray(value)) return Object.keys(value).length ? html`<${Pairs} value=${value} />` : "—";
  const text = plain(value);
  return /(^|_)(id|uid)$/.test(field) && text !== "—" ? html`<code>${text}</code>` : text;
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

export class Table extends Pure {
  columns = (rows) => {
    const { kind, names, open } = this.props;
    const row = rows[0] || {};
    const refers = (field) => Boolean(names.reference(kind, field));
    const others = Object.keys(row).filter((field) => !UNSHOWN.has(field) && field !== names.fields[kind]);
    const fields = COLUMNS[kind] || others.sort((a, b) => refers(b) - refers(a)).slice(0, MOST);
    return [
      ...leading(kind, names, open, row),
      ...fields.map((field) => ({ field, cell: (one) => html`<${Cell} kind=${kind} field=${field} value=${one[field]} names=${names} open=${open} />` })),
    ];
  };

  settings = (parameters) => this.props.show(this.props.kind, parameters);

  render({ kind, kinds, names, settings, watch, show }) {
    return html`
      <section class="table pane" aria-labelledby="table-title">
        <header class="pane-head">
          <h2 id="table-title">Table</h2>
          <label>Kind <select id="kind" value=${kind} onChange=${(event) => show(event.target.value, {})}>
            ${Object.keys(kinds).map((name) => html`<option key=${name} value=${name} selected=${name === kind}>${names.plural(name)}</option>`)}
          </select></label>
        </header>
        <div class="pane-body">
          <${Listing} kind=${kind} path=${kinds[kind]} names=${names} columns=${this.columns} watch=${watch}
            settings=${settings} onSettings=${this.settings} />
        </div>
      </section>`;
  }
}
