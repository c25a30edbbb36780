// SPDX-License-Identifier: Apache-2.0
// Events that could not be decoded or applied, by reason, the latest first. One that is unfolded shows its body; whom
// the policy allows it applies it again or drops it.
import { html, Pure, Trouble } from "./html.js";
import { Problem, get, getPages, query, send } from "./api.js";
import { count, number } from "./format.js";
import { Time } from "./times.js";

const MOST = 20;

class Entry extends Pure {
  state = { whole: null, problem: null, doomed: false, outcome: "" };

  unfold = async (event) => {
    if (!event.currentTarget.open || this.state.whole) return;
    await this.attempt(async () => this.setState({ whole: await get(`v1/quarantine/${this.props.entry.id}`) }));
  };

  async attempt(work) {
    this.setState({ problem: null }); // at its beginning, because another attempt may fail before this one ends
    try {
      await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.setState({ problem });
    }
  }

  replay = () =>
    this.attempt(async () => {
      const { outcome } = await send("POST", `v1/quarantine/${this.props.entry.id}/replay`);
      this.setState({ outcome });
      this.props.again();
    });

  drop = () => {
    if (!this.state.doomed) {
      this.setState({ doomed: true });
      return;
    }
    this.attempt(async () => {
      await send("DELETE", `v1/quarantine/${this.props.entry.id}`);
      this.props.again();
    });
  };

  body(whole) {
    if (whole.data !== undefined) return JSON.stringify(whole.data, null, 2);
    return whole.text ?? whole.base64 ?? "";
  }

  render({ entry }, { whole, problem, doomed, outcome }) {
    return html`
      <li data-id=${entry.id}>
        <details onToggle=${this.unfold}>
          <summary><span class="name">${entry.event_type}</span> <span class="facts">${entry.subject} <${Time} value=${entry.received_at} /></span></summary>
          <p class="actions">
            <button type="button" onClick=${this.replay}>Replay</button>
            <button type="button" class=${doomed ? "alarming" : ""} onClick=${this.drop}>${doomed ? "Drop it for good" : "Drop"}</button>
            ${outcome && html`<span role="status">${outcome}</span>`}
          </p>
          ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
          ${whole?.detail && html`<pre tabindex="0" aria-label="Traceback">${whole.detail}</pre>`}
          ${whole && html`<pre tabindex="0" aria-label="Body">${this.body(whole).slice(0, 20000)}</pre>`}
        </details>
      </li>`;
  }
}

/** The events of one reason; asked for when it is unfolded, and again when there are others. */
class Reason extends Pure {
  state = { open: false, entries: null, problem: null };

  componentDidUpdate(before) {
    const { group } = this.props;
    if (this.state.open && (before.group.newest_id !== group.newest_id || before.group.count !== group.count)) this.ask();
  }

  unfold = (event) => {
    if (event.target !== event.currentTarget) return;
    const { open } = event.currentTarget;
    this.setState({ open });
    if (open) this.ask();
  };

  ask = async () => {
    const { reason, source } = this.props.group;
    try {
      const page = await getPages(`v1/quarantine?${query({ reason, source, sort: "-id", limit: MOST })}`, { most: MOST });
      this.setState({ entries: page.quarantine, problem: null });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.setState({ problem });
    }
  };

  render({ group, again }, { open, entries, problem }) {
    return html`
      <li class="reasons">
        <details onToggle=${this.unfold}>
          <summary>
            <span class="reason">${group.reason}</span>
            <span class="facts"><b>${number(group.count)}</b> from ${group.source} · last <${Time} value=${group.last_received_at} /></span>
          </summary>
          ${problem && html`<p class="problem">${problem.message}</p>`}
          ${open && html`<ul class="quarantined">${(entries || []).map((entry) => html`<${Entry} key=${entry.id} entry=${entry} again=${again} />`)}</ul>`}
          ${open && group.count > MOST && html`<p class="more">The latest ${MOST} of ${number(group.count)}; the command line has all.</p>`}
        </details>
      </li>`;
  }
}

export class Quarantine extends Pure {
  render({ quarantine, problem, again }) {
    const groups = quarantine?.reasons || [];
    const total = quarantine?.total ?? 0;
    const left = total - groups.reduce((all, one) => all + one.count, 0);
    return html`
      <section class="quarantine pane" aria-labelledby="quarantine-title">
        <header class="pane-head">
          <h2 id="quarantine-title">Quarantine</h2>
          ${quarantine && html`<span class=${total ? "figure alarming" : "figure"}>${number(total)}</span>`}
        </header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} refused="The quarantine is for admins." />`}
          ${quarantine && !total && html`<p class="none">Empty: every event could be applied.</p>`}
          <ul class="by-reason">${groups.map((group) => html`<${Reason} key=${`${group.source} ${group.reason}`} group=${group} again=${again} />`)}</ul>
          ${left > 0 && html`<p class="more">${count(left, "event")} more, of rarer or older reasons; the command line has all.</p>`}
        </div>
      </section>`;
  }
}
