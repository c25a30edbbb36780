// SPDX-License-Identifier: Apache-2.0
// The live changes, the latest first. While the pointer or the focus is on the list it stands still, so that
// nothing moves away from under a click; what came meanwhile is shown afterwards.
import { createRef, html, Pure, Trouble } from "./html.js";
import { clock, deltaLines, shown, words } from "./format.js";
import { rove, settleIn } from "./roving.js";

/** A uuid by its first group, as people say it; the whole is a pointer away. */
const short = (id) => (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? `${id.slice(0, 8)}…` : id);

const SIGNS = { created: "+", updated: "~", deleted: "−" };

function Summary({ row }) {
  if (row.change === "deleted") return html`<span class="delta">deleted</span>`;
  const lines = deltaLines(row, 3);
  const left = Object.keys(row.delta).length - lines.length;
  if (row.change === "created") return html`<span class="delta">created</span>`;
  return html`<span class="delta">${lines.map(
    ({ field, before, after }, i) =>
      html`${i > 0 && ", "}<span class="field">${words(field)}</span> ${shown(before)} → <b>${shown(after)}</b>`,
  )}${left > 0 && ` and ${left} more`}</span>`;
}

class Row extends Pure {
  render({ row, name, open }) {
    return html`
      <li data-seq=${row.seq}>
        <button type="button" tabindex="-1" class=${`change ${row.change}`} onClick=${() => open(row.kind, row.id)}>
          <time datetime=${row.time}>${clock(row.time)}</time>
          <span class="sign" aria-hidden="true">${SIGNS[row.change]}</span>
          <span class="what"><span class="kind">${words(row.kind)}</span> <span class="name" title=${row.id}>${name || short(row.id)}</span></span>
          <${Summary} row=${row} />
        </button>
      </li>`;
  }
}

export class Changes extends Pure {
  box = createRef();
  state = { held: null };

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

  render({ changes, nameOf, open, live }, { held }) {
    const list = held || changes;
    const waiting = held && held !== changes ? newer(changes, held) : 0;
    return html`
      <section class="changes pane" aria-labelledby="changes-title">
        <header class="pane-head">
          <h2 id="changes-title">Changes</h2>
          ${waiting > 0 && html`<span class="note">${waiting === changes.length ? `${waiting} or more` : waiting} new, list held still</span>`}
        </header>
        <ol class="pane-body rows" ref=${this.box} onKeyDown=${(event) => rove(event, ".change")}
          onMouseEnter=${this.hold} onMouseLeave=${this.release} onFocusIn=${this.hold} onFocusOut=${this.release}>
          ${!list.length &&
          html`<li>${live.state === "refused"
            ? html`<${Trouble} problem=${live.error} refused="The changes are not for this token." />`
            : html`<p class="none">Nothing has changed yet.</p>`}</li>`}
          ${list.map((row) => html`<${Row} key=${row.seq} row=${row} name=${nameOf(row.kind, row.id)} open=${open} />`)}
        </ol>
      </section>`;
  }
}

function newer(changes, held) {
  const last = held[0]?.seq ?? 0;
  const at = changes.findIndex((row) => row.seq <= last);
  return at < 0 ? changes.length : at;
}
