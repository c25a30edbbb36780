// SPDX-License-Identifier: Apache-2.0
// The state of an entity and its health, which are two things: a synced VNF instance may have pods that crash. The only
// place of the page that knows.
//
// Looks, worst first: bad (wrong), warn (wants a look), busy (in change), unknown, off, good.

import { count } from "./format.js";

export const LOOKS = ["bad", "warn", "busy", "unknown", "off", "good"];

/** The API's word for the health of each look. */
export const HEALTHS = { bad: "error", warn: "warning", busy: "changing", unknown: "unknown", off: "off", good: "ok" };

const STATES = {
  bad: "error failed crashloopbackoff crash_looping crash-looping down unreachable disconnected unavailable out_of_range evicted",
  warn: "drifted degraded notready unresolved held_back disabled warning",
  busy: "building resized rescued pending provisioning progressing settling creating deleting stopping starting terminating updating changing",
  good: "active running ready succeeded available connected synced up enabled healthy ok in-use",
  unknown: "unknown",
};

const LOOK_OF = new Map(Object.entries(STATES).flatMap(([look, words]) => words.split(" ").map((word) => [word, look])));

/** How a state without its entity looks. */
export function look(state) {
  const text = String(state ?? "").toLowerCase().replaceAll(" ", "_");
  if (text === "") return "unknown";
  if (LOOK_OF.has(text)) return LOOK_OF.get(text);
  if (text.startsWith("error") || text.endsWith("failed")) return "bad";
  return text.endsWith("ing") ? "busy" : "off";
}

export const isProblem = (state) => ["bad", "warn"].includes(look(state));

const of = (state, why = "") => ({ look: look(state), word: state || "unknown", why });
const told = (name, word, why = "") => ({ look: name, word, why });

function pod(entity) {
  const { phase, ready, reason, restarts } = entity;
  const again = restarts ? ` ${restarts} restarts so far.` : "";
  if (entity.deleted_at) return told("busy", "Terminating", "Its deletion was asked for; its containers are being stopped.");
  if (entity.crash_looping) {
    return told("bad", "CrashLoopBackOff", `A container ends again and again, and Kubernetes waits before it starts it anew.${again}`);
  }
  if (phase === "Failed") return told("bad", reason || "Failed", "A container ended with an error and is not started again.");
  if (phase === "Pending") return told("busy", reason || "Pending", "It waits for a node, an image or a volume.");
  if (phase === "Running" && ready === false) return told("warn", "Running, not ready", `Its readiness probe fails, so it gets no traffic.${again}`);
  return of(phase);
}

/** The same rules as those of the API for the counts of the topology (read/member_states.py). */
function workload(entity) {
  const { replicas, ready_replicas: ready, updated_replicas: updated, observed_generation: seen, generation } = entity;
  const unknown = [null, undefined];
  if (unknown.includes(replicas) || unknown.includes(ready)) return told("unknown", "unknown", "Its number of pods is not known.");
  const word = `${ready}/${replicas} ready`;
  const rolling = told("busy", `${word}, progressing`, "Its controller is at work: a new template, or another number of pods.");
  if (!unknown.includes(seen) && seen < generation) return rolling;
  if (replicas === 0 && ready === 0) return told("off", "scaled to 0");
  if (!unknown.includes(updated) && updated < replicas) return rolling;
  if (ready >= replicas) return told("good", word);
  return told(ready ? "warn" : "bad", word, `${replicas - ready} of its ${replicas} pods are not ready.`);
}

function node(entity) {
  const { state, status } = entity;
  const why = entity.disabled_reason ? ` ${entity.disabled_reason}` : "";
  if (entity.gone) return told("bad", "deleted", "Its compute service was deleted, but instances are still on it.");
  if (entity.forced_down) return told("bad", "forced down", `An operator declared it dead.${why}`);
  if (state === "down") return told("bad", "down", entity.liveness_reason || "It is silent.");
  if (status === "disabled") return told("warn", "disabled", `The scheduler places no instances on it.${why}`);
  return of(state);
}

const VNF = {
  SYNCED: "What runs is a level of every aspect.",
  SETTLING: "A rollout or a scaling is under way; its level is decided afterwards.",
  DRIFTED: "The number of pods is between two levels. Scale the workload to a level, or register the levels that it has.",
  OUT_OF_RANGE: "The number of pods is below the lowest or above the highest allowed one.",
  UNRESOLVED: "A workload that the registration names does not exist in the cluster.",
  UNKNOWN: "Its cluster has not been listed in full yet.",
};

/** What the state of a VNF instance means, in a sentence. */
export function meaningOf({ state, failed_operation: failed }) {
  if (state !== "HELD_BACK" || !failed) return VNF[state] || "";
  return `It is not synced, because the operation ${failed.operation} (${failed.id}) of ${failed.holder} ended ${failed.state}.`;
}

function vnf(entity) {
  const pods = (entity.vnfc_resource_info || []).filter((one) => one.pod);
  const crashing = pods.filter((one) => one.pod.flags?.length).length;
  const found = { ...of(entity.state), meaning: meaningOf(entity) };
  if (!crashing) return found;
  return { ...found, look: "bad", why: `${crashing} of ${count(pods.length, "pod")} ${crashing === 1 ? "crashes" : "crash"} again and again.` };
}

function instance(entity) {
  const found = of(entity.state, entity.state === "error" ? entity.fault_message || entity.fault_type || "" : "");
  if (!entity.task_state) return found;
  return { ...found, look: found.look === "bad" ? "bad" : "busy", word: `${found.word}, ${entity.task_state}` };
}

function service(entity) {
  const found = of(entity.status, entity.status_message || "");
  if (!["bad", "warn"].includes(look(entity.provider_state))) return found;
  return { ...found, why: `Its provider is ${entity.provider_state}. ${found.why}`.trim() };
}

const KINDS = {
  pod, workload, instance,
  compute_node: node,
  vnf_instance: vnf,
  service_type_instance: service,
  cluster: (entity) => of(entity.state, entity.detail || ""),
  provider: (entity) => of(entity.state, entity.reason || ""),
};

/**
 * How an entity is: `word` says its state, `meaning` what that means; `look` is its health, and `why` the reason. A kind
 * of a plugin is judged by its state, status or phase.
 */
export function health(kind, entity) {
  if (Object.hasOwn(KINDS, kind)) return KINDS[kind](entity);
  return of(entity.health ?? entity.state ?? entity.status ?? entity.phase);
}

/** Whether the kind has a health at all. */
export const hasHealth = (kind, entity) =>
  Object.hasOwn(KINDS, kind) || ["health", "state", "status", "phase"].some((name) => name in entity);

const FIELDS = ["state", "status", "phase", "provider_state", "liveness"];

/** How severe a change is: error, warning or info. */
export function severity(row) {
  const after = (field) => row.delta[field]?.[1];
  const looks = FIELDS.map((field) => after(field)).filter(Boolean).map(look);
  if (looks.includes("bad") || after("crash_looping") === true || after("forced_down") === true) return "error";
  const ready = row.delta.ready_replicas;
  const fewer = ready && row.change === "updated" && (ready[1] ?? 0) < (ready[0] ?? 0);
  if (looks.includes("warn") || after("ready") === false || fewer) return row.change === "created" ? "info" : "warning";
  return row.change === "deleted" ? "warning" : "info";
}
