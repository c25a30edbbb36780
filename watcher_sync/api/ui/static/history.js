// SPDX-License-Identifier: Apache-2.0
// What happened to one entity, the latest first, a small page at a time. A long value is only named until it is asked
// for. A change while it is open asks for the first page again.
import { Component, html, Pure, Trouble } from "./html.js";
import { Problem, get, query } from "./api.js";
import { step } from "./exact.js";
import { deltaLines, number, shown, words } from "./format.js";
import { Ref } from "./names.js";
import { Time } from "./times.js";

const ROWS = 20;

class Change extends Pure {
  value(field, value) {
    const { kind, names, open } = this.props;
    const reference = typeof value === "string" && value && names.reference(kind, field);
    return reference ? html`<${Ref} kind=${reference.kind} others=${reference.or_kinds} id=${value} names=${names} open=${open} />` : shown(value);
  }

  render({ row, whole }) {
    return html`<li class=${row.change}>
      <p class="history-head"><${Time} value=${row.time} />
        <b>${row.change}</b> <span class="event">${row.event_type}</span>
        ${row.actor?.id && html`<span class="actor" title=${row.actor.request_id || ""}>by ${row.actor.id}</span>`}
        <span class="seq">#${row.seq}</span></p>
      ${row.change === "updated" &&
      html`<ul>${deltaLines(row).map(
        ({ field, before, after }) => html`<li key=${field}><span class="field">${words(field)}</span>${" "}
          <span class="old">${this.value(field, before)}</span> → <span class="new">${this.value(field, after)}</span></li>`,
      )}${row.long_fields?.length > 0 && html`<li><span class="field">${row.long_fields.map(words).join(", ")}</span> changed${" "}
        <button type="button" class="link" onClick=${() => whole(row)}>show<span class="sr"> what changed at #${row.seq}</span></button></li>`}</ul>`}
    </li>`;
  }
}

/**
 * Properties: path, turn (grows with each change), upto (the last seq to show; 0: all), onLatest (called with the last
 * change, or null where there is none), kind, names, named, open.
 */
export class History extends Component {
  state = { rows: null, next: null, busy: false, problem: null };

  componentDidMount() {
    this.ask();
  }

  componentDidUpdate(before) {
    if (before.turn !== this.props.turn || before.upto !== this.props.upto) this.ask();
  }

  componentWillUnmount() {
    this.asked = null;
  }

  /** The first page; what is shown already stays where it continues it. */
  async ask() {
    const { path, upto, onLatest } = this.props;
    const mine = (this.asked = {});
    const page = await this.get(`${path}?${query({ sort: "-seq", values: "short", limit: ROWS, ...(upto && { marker: step(upto, 1) }) })}`);
    if (!page || mine !== this.asked) return;
    const known = this.state.rows || [];
    const whole = new Map(known.map((row) => [row.seq, row])); // a value that was asked for stays
    const rows = page.history.map((row) => whole.get(row.seq) ?? row);
    onLatest(rows[0] ?? null);
    const last = rows.at(-1)?.seq;
    const earlier = known.filter(({ seq }) => seq < last);
    const continues = known.some(({ seq }) => seq >= last) && earlier.length > 0;
    this.setState({ rows: continues ? [...rows, ...earlier] : rows, next: continues ? this.state.next : page.next });
  }

  more = async () => {
    const { next } = this.state;
    const page = await this.get(`${this.props.path}${new URL(next, document.baseURI).search}`);
    if (page) this.setState((state) => (state.next === next ? { rows: [...state.rows, ...page.history], next: page.next } : null));
  };

  whole = async (row) => {
    const page = await this.get(`${this.props.path}?${query({ marker: step(row.seq, -1), limit: 1 })}`);
    if (page) this.setState(({ rows }) => ({ rows: rows.map((one) => (one.seq === row.seq ? (page.history[0] ?? one) : one)) }));
  };

  /** A page; null where there is none, or the list is of something else by now. */
  async get(path) {
    this.setState({ busy: true });
    let page = null;
    let problem = null;
    try {
      page = await get(path);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 404) page = { history: [], next: null }; // an entity that never was
      else problem = error;
    }
    if (!this.asked) return null;
    this.setState({ busy: false, problem });
    return page;
  }

  render({ kind, names, named, open }, { rows, next, busy, problem }) {
    if (problem) return html`<h3>History</h3><${Trouble} problem=${problem} />`;
    if (!rows) return busy && html`<h3>History</h3><p class="none" role="status">Loading…</p>`;
    return html`
      <h3>History <span class="figure">${number(rows.length)}${next && "+"}</span></h3>
      ${!rows.length && html`<p class="none">The journal no longer reaches back to its last change.</p>`}
      <ol class="history">${rows.map((row) => html`<${Change} key=${row.seq} row=${row} whole=${this.whole} kind=${kind} names=${names} named=${named} open=${open} />`)}</ol>
      ${next && html`<button type="button" class="link quiet" disabled=${busy} onClick=${this.more}>Show earlier changes</button>`}`;
  }
}
