// SPDX-License-Identifier: Apache-2.0
// The VNF instances: state, levels, VDUs with ready and desired pods, and who holds the lease.
import { html, Pure } from "./html.js";
import { Cell, leading, worstFirst } from "./table.js";
import { Listing } from "./listing.js";
import { askLeases, Lease } from "./leases.js";
import { askWorkloads, levelsOf, Replicas, vdusOf } from "./vdus.js";
import { Time } from "./times.js";

const problemsFirst = worstFirst("vnf_instance");

export class Vnfs extends Pure {
  columns = (rows) => {
    const { names, open } = this.props;
    return [
      ...leading("vnf_instance", names, open, rows[0] || { name: "", state: "" }),
      { field: "namespace", title: "where", cell: (row) => html`<span><${Cell} kind="vnf_instance" field="cluster"
        value=${row.cluster} names=${names} open=${open} /> / ${row.namespace}</span>` },
      { field: "scale_level", title: "levels", cell: (row) => html`<span class="stack">${levelsOf(row).map(
        ({ aspect, text, off }) => html`<span key=${aspect}><i>${aspect}</i> ${text}${off && html` <span class="state warn">${off}</span>`}</span>`)}</span>` },
      { field: "vdus", title: "VDUs, ready / desired", cell: (row, { workloads }) => html`<span class="stack">${vdusOf(row, workloads).map(
        (vdu) => html`<span key=${vdu.name} title=${vdu.why || null}><i>${vdu.name}</i> <${Replicas} vdu=${vdu} />${vdu.look !== "good" &&
          html` <span class=${`state ${vdu.look}`}>${vdu.result}</span>`}</span>`)}</span>` },
      { field: "lease", cell: (row, { leases }) => html`<${Lease} lease=${leases?.get(row.id)} />` },
      { field: "observed_at", title: "last change", cell: (row) => html`<${Time} value=${row.observed_at} />` },
    ];
  };

  more = async (rows, asOf) => {
    const leasesThen = asOf ? [] : askLeases(); // the journal does not have them
    const [workloads, leases] = await Promise.all([askWorkloads(this.props.kinds.workload, rows, asOf), leasesThen]);
    return { workloads, leases: new Map(leases.map((lease) => [lease.entity_id, lease])) };
  };

  settings = (parameters) => this.props.show("", parameters);

  render({ kinds, names, settings, watch }) {
    return html`
      <section class="vnfs pane" aria-labelledby="vnfs-title">
        <header class="pane-head"><h2 id="vnfs-title">VNF instances</h2></header>
        <div class="pane-body">
          <${Listing} kind="vnf_instance" path=${kinds.vnf_instance} names=${names} columns=${this.columns} arrange=${problemsFirst} more=${this.more} watch=${watch}
            settings=${settings} onSettings=${this.settings} />
        </div>
      </section>`;
  }
}
