// SPDX-License-Identifier: Apache-2.0
// One entity: its fields, its relations, and what happened to it. It follows the entity's changes while it is open, or
// shows the entity as it was at a moment, a deleted one as it was before its deletion.
import { Component, createRef, html, Pure, Trouble } from "./html.js";
import { Problem, get, query } from "./api.js";
import { step } from "./exact.js";
import { clock, count, isObject, isTime, plain, words } from "./format.js";
import { health, hasHealth, HEALTHS, look } from "./health.js";
import { History } from "./history.js";
import { Refs } from "./names.js";
import { Relations } from "./relations.js";
import { addressOf, addressOfEntity } from "./router.js";
import { Time } from "./times.js";
import { SHOWN, VnfDetail } from "./vnf_detail.js";

function Value({ kind, field, value, open, names }) {
  const reference = names?.reference(kind, field);
  if (reference && value?.length) return html`<${Refs} kind=${reference.kind} others=${reference.or_kinds} value=${value} names=${names} open=${open} />`;
  if (isTime(value)) return html`<${Time} value=${value} />`;
  if (Array.isArray(value) && value.some((one) => Array.isArray(one) || isObject(one))) {
    return html`<ul class="list">${value.map((one, i) => html`<li key=${i}><${Value} field="" value=${one} /></li>`)}</ul>`;
  }
  if (isObject(value)) {
    const entries = Object.entries(value);
    if (!entries.length) return "—";
    return html`<span class="pairs">${entries.map(([k, v]) => html`<span key=${k}><i>${k}</i> ${Array.isArray(v) || isObject(v) ? html`<${Value} field="" value=${v} />` : plain(v)}</span>`)}</span>`;
  }
  const text = plain(value);
  const project = names?.project(field, value);
  if (project) return html`${project} <code>${text}</code>`;
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

export class Entity extends Component {
  state = { entity: null, problem: null, gone: false, version: 0, turn: 0, latest: undefined, end: null };
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
      this.setState({ turn: this.state.turn + 1 });
      this.ask();
    }, 200);
  }

  async ask() {
    const { kind, id, path, asOf } = this.props;
    if (!path) return; // the kinds are not known yet
    const mine = (this.asked = {});
    const own = `${path}/${encodeURIComponent(id)}`;
    const answer = { entity: null, problem: null, gone: false };
    try {
      answer.entity = await get(asOf ? `${own}?${query({ as_of: asOf })}` : own);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      answer.gone = problem.status === 404;
      if (!answer.gone) answer.problem = problem;
    }
    if (mine === this.asked) this.setState({ ...answer, end: answer.entity ? null : this.state.end, version: this.state.version + 1 });
  }

  /** The latest change is known. After a deletion, show what was there before it. */
  latest = async (row) => {
    this.setState({ latest: row });
    if (row?.change !== "deleted" || this.props.asOf || (this.state.end?.seq === row.seq && this.state.end.entity)) return;
    const end = { seq: row.seq, time: row.time, entity: null };
    this.setState({ end });
    try {
      const entity = await get(`${this.props.path}/${encodeURIComponent(this.props.id)}?${query({ as_of: step(row.seq, -1) })}`);
      if (this.state.end?.seq === row.seq) this.setState({ end: { ...end, entity } });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
    }
  };

  render({ kind, id, open, close, path, paths, names, named, watch, asOf, moment }, { entity: present, problem, gone, version, turn, latest, end }) {
    const past = gone && end;
    const entity = present ?? (past ? end.entity : null);
    const then = asOf || (past ? step(end.seq, -1) : "");
    const name = entity?.[names.fields[kind]];
    const upto = asOf ? (moment?.seq ?? (/^\d+$/.test(asOf) ? asOf : 0)) : 0;
    const missing = !paths[kind] && Object.keys(paths).length > 0;
    const how = entity && hasHealth(kind, entity) ? health(kind, entity) : null;
    return html`
      <aside class="entity pane" aria-labelledby="entity-title">
        <header class="pane-head">
          <div class="entity-head">
            <p class="kind">${words(kind)}${past && ", deleted"}</p>
            <h2 id="entity-title" tabindex="-1" ref=${this.head}>${name || id}</h2>
            ${name && name !== id && html`<p class="id">${id}</p>`}
          </div>
          <button type="button" class="icon" onClick=${close} aria-keyshortcuts="Escape" title="Close (Escape)">
            <span aria-hidden="true">×</span><span class="sr">Close</span></button>
        </header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} />`}
          ${missing && html`<p class="note">The kind ${words(kind)} is not installed. <a class="link back" href="#/topology">Back to the topology</a></p>`}
          ${!entity && (!gone || (!asOf && latest === undefined)) && !problem && !missing && html`<p class="none" role="status">Loading…</p>`}
          ${past && html`<p class="note">It was deleted at ${clock(end.time)}.${entity && html` Below it is <a class="link"
            href=${addressOfEntity({ kind, id }, then)}>as it was</a> before.`}</p>`}
          ${gone && !past && (asOf || latest !== undefined) && html`<p class="note">${asOf ? "It did not exist at this moment." : "The model does not have it."}
            ${" "}<a class="link back" href=${addressOf({ view: "table", rest: kind })}>All ${names.plural(kind)}</a></p>`}
          ${how && html`<dl class="health">
            <div><dt>State</dt><dd><b>${how.word}</b>${how.meaning && html` <span class="sub">${how.meaning}</span>`}</dd></div>
            <div><dt>Health</dt><dd><span class=${`state ${how.look}`}>${HEALTHS[how.look]}</span>${how.why && html` <span class="sub">${how.why}</span>`}</dd></div></dl>`}
          ${entity && kind === "vnf_instance" && html`<${VnfDetail} vnf=${entity} kinds=${paths} names=${names} open=${open} watch=${watch} asOf=${then} />`}
          ${entity && kind === "vnf_instance" && html`<h3>Registration</h3>`}
          ${entity && html`<${Fields} kind=${kind} entity=${entity} open=${open} names=${names} named=${named} kinds=${paths} />`}
          ${entity && html`<${Relations} kind=${kind} id=${id} names=${names} version=${version} open=${open} watch=${watch} asOf=${then} />`}
          ${path && (upto || !asOf) && html`<${History} key=${asOf} path=${`${path}/${encodeURIComponent(id)}/history`} turn=${turn} upto=${upto}
            onLatest=${this.latest} kind=${kind} names=${names} named=${named} open=${open} />`}
        </div>
      </aside>`;
  }
}
