// SPDX-License-Identifier: Apache-2.0
// Runs before the first paint, so that a chosen theme never flashes in the other one.
"use strict";
try {
  const chosen = localStorage.getItem("watcher-sync-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system's preference it is.
}
