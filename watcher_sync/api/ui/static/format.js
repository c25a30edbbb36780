// SPDX-License-Identifier: Apache-2.0
// Values as people read them.
import { Exact } from "./exact.js";

const NUMBER = new Intl.NumberFormat("en");
const MINUTE = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" }; // an hour is repeated at the end of summer time
const CLOCK = new Intl.DateTimeFormat("en-GB", { ...MINUTE, second: "2-digit" });
const SHORT_CLOCK = new Intl.DateTimeFormat("en-GB", MINUTE);
const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" });

export const number = (value) => NUMBER.format(value instanceof Exact ? value.text : value);

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export const clock = (time) => CLOCK.format(new Date(time));

/** Hour and minute. */
export const shortClock = (time) => SHORT_CLOCK.format(new Date(time));

/** The time zone of this browser at a time. */
export const zone = (time) => CLOCK.formatToParts(new Date(time)).find(({ type }) => type === "timeZoneName").value;

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

export const words = (name) => name.replaceAll("_", " ").replace(/\b(vnf|mb|gb)\b/g, (unit) => unit.toUpperCase());

/** Whether a value has fields of its own. */
export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact);

/** A field's value as one text. */
export function plain(value) {
  if (value === null || value === undefined || value === "") return "—";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? number(value) : String(value);
  if (value instanceof Exact) return /^-?[1-9]\d*$/.test(value.text) ? number(value) : value.text;
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((entry) => typeof entry !== "object" || entry instanceof Exact)) return value.join(", ") || "—";
  if (Array.isArray(value)) return count(value.length, "entry", "entries");
  return Object.entries(value).map(([name, one]) => `${name} ${isObject(one) ? `(${plain(one)})` : plain(one)}`).join(", ") || "—";
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;

export const isTime = (value) => typeof value === "string" && TIME.test(value);

/** The same, times as people read them. */
export const shown = (value) => (isTime(value) ? when(value) : plain(value));

/** The leaves in which two values differ: [[path], before, after]. */
function* leaves(path, before, after) {
  if (!isObject(before) || !isObject(after)) {
    yield [path, before, after];
    return;
  }
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (JSON.stringify(before[name]) !== JSON.stringify(after[name])) yield* leaves([...path, name], before[name] ?? null, after[name] ?? null);
  }
}

/** Which field of a change is worth a line: "field old → new"; of an object, only what is new in it. */
export function deltaLines(row, most = Infinity) {
  const lines = [];
  for (const [field, [before, after]] of Object.entries(row.delta)) {
    if (row.change === "created" && (after === null || after === "")) continue;
    for (const [path, old, now] of leaves([field], before, after)) {
      if (lines.length === most) return lines;
      lines.push({ field: path.join(" "), before: old, after: now });
    }
  }
  return lines;
}
