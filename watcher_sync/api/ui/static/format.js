// SPDX-License-Identifier: Apache-2.0
// Values as people read them.

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" });

export const number = (value) => NUMBER.format(value);

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export const clock = (time) => CLOCK.format(new Date(time));

/** A time: the clock alone where it was today. */
export function when(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

/** Seconds as one figure with a unit. */
export function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const words = (name) => name.replaceAll("_", " ");

/** A field's value as one text. */
export function plain(value) {
  if (value === null || value === undefined || value === "") return "—";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? number(value) : String(value);
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((entry) => typeof entry !== "object")) return value.join(", ") || "—";
  return JSON.stringify(value);
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;

export const isTime = (value) => typeof value === "string" && TIME.test(value);

/** The same, times as people read them. */
export const shown = (value) => (isTime(value) ? when(value) : plain(value));

/** What a state means at a glance: bad, busy, off, unknown or good. */
export function look(state) {
  const text = (state || "").toLowerCase();
  if (["error", "failed", "crashloopbackoff"].includes(text)) return "bad";
  if (["building", "resized", "rescued", "pending", "provisioning", "progressing"].includes(text)) return "busy";
  if (text === "" || text === "unknown") return "unknown";
  if (["active", "running", "ready", "succeeded", "available"].includes(text)) return "good";
  return "off";
}

/** Which field of a change is worth a line: "field old → new". */
export function deltaLines(row, most = Infinity) {
  const lines = [];
  for (const [field, [before, after]] of Object.entries(row.delta)) {
    if (lines.length === most) break;
    if (row.change === "created" && (after === null || after === "")) continue;
    lines.push({ field, before, after });
  }
  return lines;
}
