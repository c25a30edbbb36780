// SPDX-License-Identifier: Apache-2.0
// Arrow keys among many buttons that are one stop of the Tab key. Up and down go by what is seen: to the nearest button
// of the next row, whatever the width of the window makes a row.

const STEPS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/** Handle a key; the button to go to is focused. For onKeyDown of the element around them. */
export function rove(event, selector) {
  if (!STEPS.includes(event.key) || event.altKey || event.ctrlKey || event.metaKey) return;
  const from = event.target.closest(selector);
  if (!from) return;
  const all = [...event.currentTarget.querySelectorAll(selector)];
  const to = target(event.key, all, all.indexOf(from));
  if (!to) return;
  event.preventDefault();
  settle(all, to);
  to.focus();
  to.scrollIntoView({ block: "nearest" });
}

/** Exactly one button is a stop of the Tab key: the one that has it, else the first. */
export function settle(all, chosen) {
  for (const button of all) button.tabIndex = button === chosen ? 0 : -1;
}

/** After a drawing: keep the stop where it is, or give it to the first. */
export function settleIn(element, selector) {
  if (!element) return;
  const all = [...element.querySelectorAll(selector)];
  if (!all.length) return;
  settle(all, all.find((button) => button === document.activeElement) || all.find((b) => b.tabIndex === 0) || all[0]);
}

function target(key, all, at) {
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  if (key === "ArrowLeft") return all[at - 1];
  if (key === "ArrowRight") return all[at + 1];
  return below(all, at, key === "ArrowDown" ? 1 : -1);
}

/** Whether two boxes are in different rows: none of the two is beside the other. */
const areApart = (one, other) => one.top >= other.bottom || one.bottom <= other.top;

function below(all, at, step) {
  const from = all[at].getBoundingClientRect();
  let best = null;
  let row = null;
  for (let i = at + step; i >= 0 && i < all.length; i += step) {
    const box = all[i].getBoundingClientRect();
    if (!areApart(box, from)) continue;
    if (row && areApart(box, row)) break;
    row ??= box;
    const apart = Math.abs(box.left - from.left);
    if (best === null || apart < best.apart) best = { apart, button: all[i] };
  }
  return best?.button;
}
