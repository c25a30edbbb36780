// SPDX-License-Identifier: Apache-2.0
// The live changes, the latest first. While the pointer or the focus is on the list it stands still, so that
// nothing moves away from under a click; what came meanwhile is shown afterwards. A pause lasts until it is ended.
import { createRef, html, Pure, Trouble } from "./html.js";
import { clock, deltaLines, shown, words } from "./format.js";
import { severity } from "./health.js";
import { rove, settleIn } from "./roving.js";
import { relative } from "./times.js";

/** A uuid by its first group, as people say it; the whole is a pointer away. */
const short = (id) => (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? `${id.slice(0, 8)}…` : id);

const SIGNS = { created: "+", updated: "~", deleted: "−" };
const SEVERITIES = { all: "All", warning: "Warnings and errors", error: "Errors" };

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
          <span class="what">${how !== "info" && html`<span class="severity">${how} </span>`}<span class="kind">${words(row.kind)}</span> <span class="name" title=${row.id}>${name || short(row.id)}</span></span>
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
  state = { held: null, paused: null, severity: "all", text: "" };

  componentDidUpdate() {
    settleIn(this.box.current, ".change");
  }

  hold = () => {
    if (!this.state.held) this.setState({ held: this.props.changes });
  };

  release = (event) => {
    const box = this.box.current;
    if (event.type === "focusout" ? box.contains(event.relatedTarget) || box.matches(":hover") : box.contains(document.activeElement)) return;
    this.setState({ held: null });
  };

  pause = () => this.setState({ paused: this.state.paused ? null : (this.state.held ?? this.props.changes) });

  render({ changes, names, open, live }, { held, paused, severity: least, text }) {
    const still = paused || held;
    const list = (still || changes).filter((row) => passes(row, names.of(row.kind, row.id), { severity: least, text }));
    const waiting = still && still !== changes ? newer(changes, still) : 0;
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
        </header>
        <ol class="pane-body rows" ref=${this.box} onKeyDown=${(event) => rove(event, ".change")}
          onMouseEnter=${this.hold} onMouseLeave=${this.release} onFocusIn=${this.hold} onFocusOut=${this.release}>
          ${!list.length &&
          html`<li>${live.state === "refused"
            ? html`<${Trouble} problem=${live.error} refused="The changes are not for this token." />`
            : html`<p class="none">${changes.length ? "No change of late is like this." : "Nothing has changed yet."}</p>`}</li>`}
          ${list.map((row) => html`<${Row} key=${row.seq} row=${row} name=${names.of(row.kind, row.id)} open=${open} />`)}
        </ol>
      </section>`;
  }
}

function newer(changes, held) {
  const last = held[0]?.seq ?? 0;
  const at = changes.findIndex((row) => row.seq <= last);
  return at < 0 ? changes.length : at;
}
