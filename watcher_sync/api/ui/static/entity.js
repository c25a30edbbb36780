// SPDX-License-Identifier: Apache-2.0
// One entity: its fields, its relations, and what happened to it, the latest first. It follows the entity's
// changes while it is open, or shows the entity as it was at a moment.
import { Component, createRef, html, Pure, Trouble } from "./html.js";
import { Problem, get, query } from "./api.js";
import { clock, count, deltaLines, isTime, number, plain, shown, words } from "./format.js";
import { health, hasHealth, look } from "./health.js";
import { Refs } from "./names.js";
import { Relations } from "./relations.js";
import { Time } from "./times.js";
import { SHOWN, VnfDetail } from "./vnf_detail.js";

const PAGES = 10;

function Value({ kind, field, value, open, names }) {
  const reference = names?.reference(kind, field);
  if (reference && value?.length) return html`<${Refs} kind=${reference.kind} value=${value} names=${names} open=${open} />`;
  if (isTime(value)) return html`<${Time} value=${value} />`;
  if (Array.isArray(value) && value.some((one) => one && typeof one === "object")) {
    return html`<ul class="list">${value.map((one, i) => html`<li key=${i}><${Value} field="" value=${one} /></li>`)}</ul>`;
  }
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const entries = Object.entries(value);
    if (!entries.length) return "—";
    return html`<span class="pairs">${entries.map(([k, v]) => html`<span key=${k}><i>${k}</i> ${v && typeof v === "object" ? html`<${Value} field="" value=${v} />` : plain(v)}</span>`)}</span>`;
  }
  const text = plain(value);
  if (text !== "—" && /(^|_)(id|uuid)$/.test(field)) return html`<code>${text}</code>`;
  return html`<span class=${text === "—" ? "empty" : field.endsWith("state") || field === "status" ? `state ${look(value)}` : ""}>${text}</span>`;
}

class Fields extends Pure {
  state = { all: false };

  render({ kind, entity, open, names }, { all }) {
    const elsewhere = kind === "vnf_instance" ? SHOWN : new Set();
    const pairs = Object.entries(entity).filter(([name]) => name !== "id" && name !== "seq" && !elsewhere.has(name));
    const set = pairs.filter(([, value]) => all || (plain(value) !== "—" && value !== false));
    const left = pairs.length - set.length;
    return html`
      <dl class="fields">
        ${set.map(
          ([name, value]) => html`<div key=${name}><dt>${words(name)}</dt>
            <dd><${Value} field=${name} kind=${kind} value=${value} open=${open} names=${names} /></dd></div>`,
        )}
      </dl>
      ${(left > 0 || all) && html`<button type="button" class="link quiet" onClick=${() => this.setState({ all: !all })}>
        ${all ? "Hide fields without a value" : `Show ${count(left, "field")} more, unset or no`}</button>`}`;
  }
}

class History extends Pure {
  render({ rows, more }) {
    return html`
      <h3>History <span class="figure">${number(rows.length)}${more ? "+" : ""}</span></h3>
      ${!rows.length && html`<p class="none">The journal no longer reaches back to its last change.</p>`}
      ${more && html`<p class="note">These are the first; the API has the later ones.</p>`}
      <ol class="history">
        ${rows.map(
          (row) => html`<li key=${row.seq} class=${row.change}>
            <p class="history-head"><${Time} value=${row.time} />
              <b>${row.change}</b> <span class="event">${row.event_type}</span>
              ${row.actor?.id && html`<span class="actor" title=${row.actor.request_id || ""}>by ${row.actor.id}</span>`}
              <span class="seq">#${row.seq}</span></p>
            ${row.change === "updated" &&
            html`<ul>${deltaLines(row).map(
              ({ field, before, after }) => html`<li key=${field}><span class="field">${words(field)}</span>${" "}
                <span class="old">${shown(before)}</span> → <span class="new">${shown(after)}</span></li>`,
            )}</ul>`}
          </li>`,
        )}
      </ol>`;
  }
}

export class Entity extends Component {
  state = { entity: null, history: [], more: false, problem: null, gone: false, version: 0 };
  head = createRef();

  componentDidMount() {
    this.ended = this.props.watch((row) => this.told(row));
    this.ask();
    this.head.current.focus();
  }

  componentDidUpdate(before) {
    if ((!before.path && this.props.path) || before.asOf !== this.props.asOf) this.ask();
  }

  componentWillUnmount() {
    this.ended();
    clearTimeout(this.due);
  }

  /** A change of this entity, or of one that stands on it. */
  told(row) {
    const { kind, id, asOf } = this.props;
    if (asOf) return;
    const own = row.kind === kind && row.id === id;
    const near = Object.values(row.delta).some((pair) => pair.some((value) => value === id || (Array.isArray(value) && value.includes(id))));
    if (!own && !near) return;
    this.due ??= setTimeout(() => {
      this.due = null;
      this.ask();
    }, 200);
  }

  async ask() {
    const { kind, id, path, asOf } = this.props;
    if (!path) return; // the kinds are not known yet
    const mine = (this.asked = {});
    const own = `${path}/${encodeURIComponent(id)}`;
    const then = asOf ? `${own}?${query({ as_of: asOf })}` : own;
    const [entity, history] = await Promise.allSettled([get(then), this.history(own)]);
    if (mine !== this.asked) return;
    for (const { reason } of [entity, history]) if (reason && !(reason instanceof Problem)) throw reason;
    const gone = entity.reason?.status === 404;
    this.setState({
      entity: entity.value ?? null,
      history: history.value?.rows ?? [],
      more: history.value?.more ?? false,
      problem: gone ? null : (entity.reason ?? history.reason ?? null),
      gone,
      version: this.state.version + 1,
      kind,
    });
  }

  async history(own) {
    let next = `${own}/history`;
    let rows = [];
    for (let i = 0; i < PAGES && next; i += 1) {
      const page = await get(next);
      rows = rows.concat(page.history);
      next = page.next;
    }
    return { rows: rows.reverse(), more: Boolean(next) };
  }

  render({ kind, id, open, close, paths, names, named, watch, asOf, moment }, { entity, history: all, more, problem, gone, version }) {
    const upto = asOf ? (moment?.seq ?? Number(asOf)) : Infinity;
    const history = all.filter(({ seq }) => seq <= upto);
    const name = entity?.[names.fields[kind]];
    const missing = !paths[kind] && Object.keys(paths).length > 0;
    const how = entity && hasHealth(kind, entity) ? health(kind, entity) : null;
    return html`
      <aside class="entity pane" aria-labelledby="entity-title">
        <header class="pane-head">
          <div class="entity-head">
            <p class="kind">${words(kind)}</p>
            <h2 id="entity-title" tabindex="-1" ref=${this.head}>${name || id}</h2>
            ${name && name !== id && html`<p class="id">${id}</p>`}
          </div>
          <button type="button" class="icon" onClick=${close} aria-keyshortcuts="Escape" title="Close (Escape)">
            <span aria-hidden="true">×</span><span class="sr">Close</span></button>
        </header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} />`}
          ${missing && html`<p class="note">This kind is not installed.</p>`}
          ${gone && html`<p class="note">${asOf ? "It did not exist at this moment." : history[0]?.change === "deleted" ? `It was deleted at ${clock(history[0].time)}.` : "The model does not have it."}</p>`}
          ${how && html`<p class="health"><span class=${`state ${how.look}`}>${how.word}</span>${how.why && kind !== "vnf_instance" && html` <span>${how.why}</span>`}</p>`}
          ${entity && kind === "vnf_instance" && html`<${VnfDetail} vnf=${entity} kinds=${paths} names=${names} open=${open} watch=${watch} asOf=${asOf} />`}
          ${entity && kind === "vnf_instance" && html`<h3>Registration</h3>`}
          ${entity && html`<${Fields} kind=${kind} entity=${entity} open=${open} names=${names} named=${named} kinds=${paths} />`}
          ${entity && html`<${Relations} kind=${kind} id=${id} names=${names} version=${version} open=${open} watch=${watch} asOf=${asOf} />`}
          ${(entity || history.length > 0) && html`<${History} rows=${history} more=${more} />`}
        </div>
      </aside>`;
  }
}
