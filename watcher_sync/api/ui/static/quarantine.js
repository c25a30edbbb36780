// SPDX-License-Identifier: Apache-2.0
// Events that could not be decoded or applied, with the reason; one that is unfolded shows its body.
import { html, Pure, Trouble } from "./html.js";
import { Problem, get } from "./api.js";
import { number, when } from "./format.js";

class Entry extends Pure {
  state = { whole: null, problem: null };

  unfold = async (event) => {
    if (!event.currentTarget.open || this.state.whole) return;
    try {
      this.setState({ whole: await get(`v1/quarantine/${this.props.entry.id}`), problem: null });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.setState({ problem });
    }
  };

  body(whole) {
    if (whole.data !== undefined) return JSON.stringify(whole.data, null, 2);
    return whole.text ?? whole.base64 ?? "";
  }

  render({ entry }, { whole, problem }) {
    return html`
      <li>
        <details onToggle=${this.unfold}>
          <summary>
            <span class="reason">${entry.reason}</span>
            <span class="facts">
              <span class="name">${entry.event_type}</span> from ${entry.source} · ${when(entry.received_at)}
            </span>
          </summary>
          ${problem && html`<p class="problem">${problem.message}</p>`}
          ${whole?.detail && html`<pre tabindex="0" aria-label="Traceback">${whole.detail}</pre>`}
          ${whole && html`<pre tabindex="0" aria-label="Body">${this.body(whole).slice(0, 20000)}</pre>`}
        </details>
      </li>`;
  }
}

export class Quarantine extends Pure {
  render({ quarantine, problem }) {
    const entries = quarantine?.quarantine || [];
    const more = quarantine?.next ? "+" : "";
    return html`
      <section class="quarantine pane" aria-labelledby="quarantine-title">
        <header class="pane-head">
          <h2 id="quarantine-title">Quarantine</h2>
          ${quarantine && html`<span class=${entries.length ? "figure alarming" : "figure"}>${number(entries.length)}${more}</span>`}
        </header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} refused="The quarantine is for admins." />`}
          ${quarantine && !entries.length && html`<p class="none">Empty: every event could be applied.</p>`}
          <ul class="quarantined">${entries.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} />`)}</ul>
          ${more && html`<p class="more">The oldest ${number(entries.length)} are listed; the command line has all.</p>`}
        </div>
      </section>`;
  }
}
