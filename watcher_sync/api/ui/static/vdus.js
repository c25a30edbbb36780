// SPDX-License-Identifier: Apache-2.0
// The VDUs of a VNF instance, with the pods that their workloads want and those that are ready.
import { getPages } from "./api.js";
import { html } from "./html.js";
import { number } from "./format.js";
import { health } from "./health.js";

const MOST_CHARS = 1500; // of one filter

const RESULTS = { SYNCED: "good", NO_DIFF: "good", DRIFTED: "warn", SETTLING: "busy", OUT_OF_RANGE: "bad", UNRESOLVED: "bad" };

const fullName = (vnf, workload) => [vnf.cluster, vnf.namespace, workload.kind, workload.name].join("/");

/** Lists of names, each short enough for one filter. */
function chunks(names) {
  const found = [[]];
  let chars = 0;
  for (const name of names) {
    chars += name.length + 1;
    if (chars > MOST_CHARS) {
      found.push([]);
      chars = name.length + 1;
    }
    found.at(-1).push(name);
  }
  return found.filter((one) => one.length);
}

/** Full name -> workload, of all VDUs of these instances. */
export async function askWorkloads(path, vnfs, asOf = "") {
  if (!path) return new Map();
  const names = new Set(vnfs.flatMap((vnf) => Object.values(vnf.vdus || {}).filter((vdu) => vdu.workload.name).map((vdu) => fullName(vnf, vdu.workload))));
  const pages = await Promise.all(
    chunks([...names]).map((some) => getPages(`${path}?${new URLSearchParams({ full_name: `in:${some.join(",")}`, ...(asOf && { as_of: asOf }) })}`,
      { pages: Infinity })),
  );
  return new Map(pages.flatMap((page) => page.workloads).map((one) => [one.full_name, one]));
}

/** What is known of each VDU. */
export function vdusOf(vnf, workloads) {
  return Object.entries(vnf.vdus || {}).map(([name, vdu]) => {
    const workload = workloads?.get(fullName(vnf, vdu.workload)) ?? null;
    const result = vnf.vdu_results?.[name] || {};
    return {
      name, workload, registered: vdu,
      ready: workload?.ready_replicas ?? null,
      desired: workload?.replicas ?? null,
      counted: vnf.observed?.[name] ?? null,
      result: result.result || "UNKNOWN",
      look: RESULTS[result.result] || "unknown",
      why: [
        result.detail,
        result.crash_looping && `in a crash loop: ${result.crash_looping.join(", ")}`,
        result.not_counted && `not counted: ${Object.entries(result.not_counted).map(([why, n]) => `${number(n)} ${why}`).join(", ")}`,
      ].filter(Boolean).join("; "),
    };
  });
}

/** Ready and desired pods of a VDU: "2/3". */
export function Replicas({ vdu }) {
  if (vdu.desired === null) return html`<span class="state unknown">${vdu.counted === null ? "—" : `${vdu.counted} pods`}</span>`;
  const { look } = health("workload", vdu.workload);
  return html`<span class=${`state ${look}`}>${vdu.ready ?? 0}/${vdu.desired}</span>`;
}

/** Levels in words: "workers 1 of 2"; a level that is not reached exactly is said to be so. */
export function levelsOf(vnf) {
  return Object.entries(vnf.aspects || {}).map(([aspect, { max_scale_level: most }]) => {
    const level = vnf.scale_level?.[aspect];
    const nearest = vnf.nearest_level?.[aspect];
    const exact = !(aspect in (vnf.nearest_level || {}));
    const text = level === undefined ? "unknown" : `${level} of ${most}`;
    const off = exact ? "" : nearest === null ? "below level 0 now" : nearest === most ? "above the highest level now" : `between levels now, above ${nearest}`;
    return { aspect, level, most, exact, text, off };
  });
}
