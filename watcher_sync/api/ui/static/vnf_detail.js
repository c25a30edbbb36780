// SPDX-License-Identifier: Apache-2.0
// One VNF instance: its levels, its VDUs, the pods behind its vnfcs, and its operations.
import { Asking } from "./asking.js";
import { getPages } from "./api.js";
import { html } from "./html.js";
import { plain, words } from "./format.js";
import { askLeases, Lease } from "./leases.js";
import { askWorkloads, levelsOf, Replicas, vdusOf } from "./vdus.js";
import { Ref } from "./names.js";
import { Time } from "./times.js";

/** Fields of the instance that are shown here, and so not in the list of its fields. */
export const SHOWN = new Set(["vdus", "aspects", "scale_level", "nearest_level", "observed", "vdu_results", "vnfc_resource_info",
  "vnfc_info", "vacant", "_links", "vnfInstanceName", "vnfdId", "instantiationState", "instantiatedVnfInfo", "state",
  "workload_uids", "pod_uids", "vnfProvider", "vnfProductName", "vnfSoftwareVersion", "vnfdVersion", "extCpInfo"]);


function bounds({ initial, min, max }) {
  return `${initial} at level 0, ${min ?? 0} to ${max ?? "any number"}`;
}

function Vdus({ vdus, names, open }) {
  return html`<table class="data">
    <caption class="sr">VDUs</caption>
    <thead><tr><th scope="col">VDU</th><th scope="col">Workload</th><th scope="col">Ready / desired</th><th scope="col">Result</th></tr></thead>
    <tbody>${vdus.map((vdu) => html`<tr key=${vdu.name}>
      <th scope="row">${vdu.name}<span class="sub">${bounds(vdu.registered)}</span></th>
      <td data-label="Workload">${vdu.workload
        ? html`<${Ref} kind="workload" id=${vdu.workload.id} name=${vdu.workload.name} names=${names} open=${open} />`
        : vdu.registered.workload.name ?? plain(vdu.registered.workload.labels)}<span class="sub">${vdu.registered.workload.kind}</span></td>
      <td data-label="Ready / desired"><${Replicas} vdu=${vdu} />${vdu.counted !== null && html`<span class="sub">${vdu.counted} counted</span>`}</td>
      <td data-label="Result"><span class=${`state ${vdu.look}`}>${vdu.result}</span>${vdu.why && html`<span class="sub">${vdu.why}</span>`}</td>
    </tr>`)}</tbody>
  </table>`;
}

function Vnfcs({ vnf, names, open }) {
  const rows = [...(vnf.vnfc_resource_info || []), ...(vnf.vacant || []).map((one) => ({ ...one, waits: true }))];
  if (!rows.length) return html`<p class="none">No pod is there.</p>`;
  return html`<ul class="vnfcs">${rows.map((one) => {
    const flags = one.pod?.flags || [];
    return html`<li key=${one.id}>
      <span class="name">${one.waits || !one.pod?.uid
        ? "waits for a pod"
        : html`<${Ref} kind="pod" id=${one.pod.uid} name=${one.computeResource?.resourceId} names=${names} open=${open} />`}</span>
      <span class=${`state ${flags.length ? "bad" : one.waits ? "busy" : "good"}`}>${flags.join(", ") || (one.waits ? "vacant" : "started")}</span>
      <span class="sub">${[one.vduId, one.pod?.node && `on ${one.pod.node}`].filter(Boolean).join(" ")} · vnfc <code>${one.id}</code></span>
    </li>`;
  })}</ul>`;
}

/** Properties: vnf, kinds (paths), names, open, watch, asOf. The journal has no leases, so the past has none here. */
export class VnfDetail extends Asking {
  state = { problem: null, workloads: null, lease: null, operations: [] };

  concerns(row) {
    return row.kind === "workload" || (row.kind === "vnf_instance" && row.id === this.props.vnf.id);
  }

  async load() {
    const { vnf, kinds, asOf } = this.props;
    if (asOf) return { workloads: await askWorkloads(kinds.workload, [vnf], asOf), lease: null, operations: [] };
    const [workloads, leases, operations] = await Promise.all([
      askWorkloads(kinds.workload, [vnf]),
      askLeases(),
      this.operations(`${kinds.vnf_instance}/${encodeURIComponent(vnf.id)}/operations?limit=1000`),
    ]);
    return { workloads, lease: leases.find((one) => one.entity_id === vnf.id) ?? null, operations };
  }

  async operations(path) {
    return (await getPages(path, { pages: Infinity })).operations.slice(-5).reverse();
  }

  render({ vnf, names, open, asOf }, { workloads, lease, operations }) {
    return html`
      <h3>Levels</h3>
      ${levelsOf(vnf).length === 0 && html`<p class="none">No aspect scales it.</p>`}
      <dl class="fields">${levelsOf(vnf).map(({ aspect, text, off }) => html`<div key=${aspect}><dt>${aspect}</dt>
        <dd>${text}${off && html`, <span class="state warn">${off}</span>`}</dd></div>`)}</dl>
      <h3>VDUs</h3>
      <${Vdus} vdus=${vdusOf(vnf, workloads)} names=${names} open=${open} />
      <h3>VNFCs and their pods</h3>
      <${Vnfcs} vnf=${vnf} names=${names} open=${open} />
      ${!asOf && html`<h3>Lease</h3>
      <p><${Lease} lease=${lease} long=${true} /></p>`}
      ${operations.length > 0 && html`<h3>Last operations</h3>
      <ul class="operations">${operations.map((one) => html`<li key=${one.id}>
        <b>${one.operation}</b> by ${one.holder} <span class=${`state ${["FAILED", "FAILED_TEMP", "EXPIRED"].includes(one.state) ? "bad" : one.state === "RUNNING" ? "busy" : "good"}`}>${one.state}</span>${" "}
        <span class="sub"><${Time} value=${one.since} /></span></li>`)}</ul>`}
      ${vnf.ext_cp_info?.length > 0 && html`<h3>External connection points</h3>
      <ul>${vnf.ext_cp_info.map((one, i) => html`<li key=${i} class="pairs">${Object.entries(one).map(([name, value]) =>
        html`<span key=${name}><i>${words(name)}</i> ${plain(value)}</span>`)}</li>`)}</ul>`}`;
  }
}

