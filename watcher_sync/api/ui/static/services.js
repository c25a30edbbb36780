// SPDX-License-Identifier: Apache-2.0
// The service type instances: what was asked for, how it is and why, and how the provider is.
import { html, Pure } from "./html.js";
import { look } from "./health.js";
import { Cell, leading, worstFirst } from "./table.js";
import { Listing } from "./listing.js";
import { Time } from "./times.js";

const problemsFirst = worstFirst("service_type_instance");

export class Services extends Pure {
  columns = (rows) => {
    const { names, open } = this.props;
    const cell = (row, field) => html`<${Cell} kind="service_type_instance" field=${field} value=${row[field]} names=${names} open=${open} />`;
    return [
      ...leading("service_type_instance", names, open, rows[0] || { instance_name: "", status: "" }),
      { field: "service_type", cell: (row) => row.service_type ?? "—" },
      { field: "provider_id", title: "provider", cell: (row) => html`<span>${cell(row, "provider_id")}${row.provider_state &&
        html` <span class=${`state ${look(row.provider_state)}`}>${row.provider_state}</span>`}</span>` },
      { field: "spec", title: "asked for", cell: (row) => cell(row, "spec") },
      { field: "updated_at", title: "last change", cell: (row) => html`<${Time} value=${row.updated_at} />` },
    ];
  };

  settings = (parameters) => this.props.show("", parameters);

  render({ kinds, names, settings, watch }) {
    return html`
      <section class="services pane" aria-labelledby="services-title">
        <header class="pane-head"><h2 id="services-title">Service type instances</h2></header>
        <div class="pane-body">
          <${Listing} kind="service_type_instance" path=${kinds.service_type_instance} names=${names} columns=${this.columns} arrange=${problemsFirst} watch=${watch}
            settings=${settings} onSettings=${this.settings} />
        </div>
      </section>`;
  }
}
