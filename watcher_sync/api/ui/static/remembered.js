// SPDX-License-Identifier: Apache-2.0
// What a person chose for this browser, such as the columns of a table. Without storage it lasts as long as the page.

const PREFIX = "watcher-sync-";
const here = new Map();

/** The value that was chosen; undefined: none was. */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? here.get(name);
  } catch {
    return here.get(name);
  }
}

export function remember(name, value) {
  here.set(name, value);
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // No storage.
  }
}
