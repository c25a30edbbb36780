// SPDX-License-Identifier: Apache-2.0
// The live changes, the latest first; those of an entity in one second are one row. While the pointer or the focus is
// on the list it does not move, so a click meets what it was meant for; what came meanwhile is shown afterwards. A pause
// lasts until it is ended. A list with many changes a second moves once a second. A range of time replaces the list.
import { Problem, get } from "./api.js";
import { createRef, html, Pure, Trouble } from "./html.js";
import { clock, deltaLines, number, shown, words } from "./format.js";
import { severity } from "./health.js";
import { rove, settleIn } from "./roving.js";
import { MomentField, relative } from "./times.js";

/** A uuid by its first group, as people say it; the whole is a pointer away. */
const short = (id) => (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? `${id.slice(0, 8)}…` : id);

const SIGNS = { created: "+", updated: "~", deleted: "−" };
const SEVERITIES = { all: "All", warning: "Warnings and errors", error: "Errors" };

const EMPTY = { waiting: "Loading…", lost: "Not known while disconnected." };

const MOST = 200; // rows that are drawn
const BUSY = 20; // changes a second with which the list moves once a second
const RANGE = 2000; // changes of a range
const PAGES = 20; // of the API for a range; for a caller of one project they may be empty

const unions = new WeakMap();

/** The changes of one entity as one: from what it was before the first to what it is after the last. */
function union(rows) {
  const [last] = rows;
  if (rows.length === 1) return last;
  const known = unions.get(last);
  if (known?.times === rows.length) return known;
  const delta = {};
  for (const row of rows) for (const [field, [before, after]] of Object.entries(row.delta)) delta[field] = [before, delta[field] ? delta[field][1] : after];
  const change = last.change === "deleted" ? "deleted" : rows.at(-1).change === "created" ? "created" : last.change;
  const made = { ...last, delta, change, times: rows.length };
  unions.set(last, made);
  return made;
}

/** One row for each entity and second, in the order of the changes. */
export function grouped(changes) {
  const groups = new Map();
  for (const row of changes) {
    const key = `${row.kind}/${row.id}/${row.time.slice(0, 19)}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups].map(([key, rows]) => ({ key, row: union(rows) }));
}

/** The changes from one time to another, the latest first; as many as some pages have. */
async function changesBetween(from, to) {
  const rows = [];
  let since = from;
  for (let pages = 1; ; pages += 1) {
    const page = await get(`v1/events?${new URLSearchParams({ since, limit: 500 })}`);
    rows.push(...page.events.filter((row) => Date.parse(row.time) <= Date.parse(to)));
    const isOver = page.next_since >= page.head || (page.events.length > 0 && Date.parse(page.events.at(-1).time) > Date.parse(to));
    if (isOver || rows.length >= RANGE || pages === PAGES) return { rows: rows.reverse(), more: !isOver };
    since = page.next_since;
  }
}

function Summary({ row }) {
  if (row.change === "deleted") return html`<span class="delta">deleted</span>`;
  const all = deltaLines(row);
  const lines = all.slice(0, 3);
  const left = all.length - lines.length;
  if (row.change === "created") return html`<span class="delta">created</span>`;
  return html`<span class="delta">${lines.map(
    ({ field, before, after }, i) =>
      html`${i > 0 && ", "}<span class="field">${words(field)}</span> ${shown(before)} → <b>${shown(after)}</b>`,
  )}${left > 0 && ` and ${left} more`}</span>`;
}

class Row extends Pure {
  render({ row, name, open }) {
    const how = severity(row);
    return html`
      <li data-seq=${row.seq} data-severity=${how}>
        <button type="button" tabindex="-1" class=${`change ${row.change} ${how}`} onClick=${() => open(row.kind, row.id)}>
          <time datetime=${row.time} title=${`${row.time}, ${relative(row.time)}`}>${clock(row.time)}</time>
          <span class="sign" aria-hidden="true">${SIGNS[row.change]}</span>
          <span class="what">${how !== "info" && html`<span class="severity">${how} </span>`}<span class="kind">${words(row.kind)}</span> <span class="name" title=${row.id}>${name || short(row.id)}</span>${row.times > 1 && html` <span class="times" title=${`${row.times} changes in this second`}>×${row.times}</span>`}</span>
          <${Summary} row=${row} />
        </button>
      </li>`;
  }
}

/** Whether a change is to be shown: severe enough, and with this text in what is shown of it. */
export function passes(row, name, { severity: least, text }) {
  const how = severity(row);
  if (least === "error" && how !== "error") return false;
  if (least === "warning" && how === "info") return false;
  if (!text) return true;
  const said = [row.kind, words(row.kind), row.id, name, row.event_type, row.change, row.actor?.id, ...Object.entries(row.delta).flatMap(([field, [, after]]) => [field, shown(after)])];
  return said.some((one) => String(one ?? "").toLowerCase().includes(text.toLowerCase()));
}

export class Changes extends Pure {
  box = createRef();
  state = { held: null, paused: null, severity: "all", text: "", range: null, rangeProblem: null };
  calm = { changes: [], at: -Infinity };
  due = null;

  componentDidUpdate() {
    settleIn(this.box.current, ".change");
  }

  /** The live changes that are on the page; below a range of time, those that would be. */
  drawn = () => (this.state.range ? this.props.changes : this.calm.changes);

  hold = () => {
    if (!this.state.held) this.setState({ held: this.drawn() });
  };

  release = (event) => {
    const box = this.box.current;
    if (event.type === "focusout" ? box.contains(event.relatedTarget) || box.matches(":hover") : box.contains(document.activeElement)) return;
    const isLive = !this.state.paused && !this.state.range;
    if (event.type === "focusout" && isLive && document.hasFocus()) box.scrollTop = 0; // what is new is there
    this.setState({ held: null });
  };

  pause = () => this.setState({ paused: this.state.paused ? null : (this.state.held ?? this.drawn()) });

  showRange = async (event) => {
    event.preventDefault();
    const mine = (this.asked = {});
    const answer = { range: this.state.range, rangeProblem: null };
    try {
      answer.range = await changesBetween(this.from, this.to || new Date().toISOString());
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      answer.rangeProblem = problem;
    }
    if (mine !== this.asked) return;
    this.box.current.scrollTop = 0;
    this.setState(answer);
  };

  endRange = (event) => {
    event.currentTarget.form.elements.from.focus(); // the button goes out
    this.asked = null;
    this.setState({ range: null, rangeProblem: null });
  };

  /** What to draw of the changes: with many a second, what there was a second ago at most. */
  settled(changes) {
    const isBusy = changes.length > BUSY && Date.parse(changes[0].time) - Date.parse(changes[BUSY].time) < 1000;
    const left = this.calm.at + 1000 - performance.now();
    const isFirst = !this.calm.changes.length;
    if (isFirst || !isBusy || left <= 0 || changes.length < this.calm.changes.length) this.calm = { changes, at: performance.now() };
    else if (changes !== this.calm.changes) this.due ??= setTimeout(this.drawAgain, left);
    return this.calm.changes;
  }

  drawAgain = () => {
    this.due = null;
    this.setState({ drawn: performance.now() });
  };

  componentWillUnmount() {
    this.asked = null;
    clearTimeout(this.due);
  }

  range() {
    const { range, rangeProblem } = this.state;
    return html`<details class="range"><summary>Range of time</summary>
      <form onSubmit=${this.showRange}>
        <${MomentField} title="From" name="from" required onMoment=${(moment) => { this.from = moment; }} />
        <${MomentField} title="to" name="to" onMoment=${(moment) => { this.to = moment; }} />
        <button type="submit">Show</button>
        <button type="button" disabled=${!range} onClick=${this.endRange}>Live</button>
      </form>
      ${range && html`<p class="note" role="status">${number(range.rows.length)}${range.more && "+"} changes in the range</p>`}
      ${rangeProblem && html`<${Trouble} problem=${rangeProblem} refused="The changes are not for this token." />`}
    </details>`;
  }

  render({ changes, names, open, live }, { held, paused, severity: least, text, range }) {
    const still = paused || held;
    const source = range?.rows ?? still ?? this.settled(changes);
    const list = grouped(source.filter((row) => passes(row, names.of(row.kind, row.id), { severity: least, text }))).slice(0, MOST);
    const waiting = still && !range && still !== changes ? newer(changes, still) : 0;
    return html`
      <section class="changes pane" aria-labelledby="changes-title">
        <header class="pane-head">
          <h2 id="changes-title">Changes</h2>
          ${waiting > 0 && html`<span class="note">${waiting === changes.length ? `${waiting} or more` : waiting} new, ${paused ? "paused" : "list held still"}</span>`}
          <button type="button" class="pause" aria-pressed=${String(Boolean(paused))} onClick=${this.pause}>Pause</button>
          <div class="narrowing">
            <label><span class="sr">Severity</span><select id="severity" value=${least} onChange=${(event) => this.setState({ severity: event.target.value })}>
              ${Object.entries(SEVERITIES).map(([name, title]) => html`<option key=${name} value=${name}>${title}</option>`)}</select></label>
            <label class="grow"><span class="sr">Only changes with this text</span><input id="change-text" type="search" placeholder="Name, kind, event, actor or value"
              spellcheck="false" autocomplete="off" value=${text} onInput=${(event) => this.setState({ text: event.target.value })} /></label>
          </div>
          ${this.range()}
        </header>
        <ol class="pane-body rows" ref=${this.box} onKeyDown=${(event) => rove(event, ".change")}
          onMouseEnter=${this.hold} onMouseLeave=${this.release} onFocusIn=${this.hold} onFocusOut=${this.release}>
          ${!list.length &&
          html`<li>${live.state === "refused"
            ? html`<${Trouble} problem=${live.error} refused="The changes are not for this token." />`
            : html`<p class="none">${source.length ? "No change of late is like this." : range ? "Nothing changed in it." : (EMPTY[live.state] ?? "Nothing has changed yet.")}</p>`}</li>`}
          ${list.map(({ key, row }) => html`<${Row} key=${key} row=${row} name=${names.of(row.kind, row.id)} open=${open} />`)}
        </ol>
      </section>`;
  }
}

function newer(changes, held) {
  const last = held[0]?.seq ?? 0;
  const at = changes.findIndex((row) => row.seq <= last);
  return at < 0 ? changes.length : at;
}
