// SPDX-License-Identifier: Apache-2.0
// Says why the page did not load. It imports nothing, so it runs where a part of the page does not come.
"use strict";
{
  let isSaid = false;

  /** Show the first reason above all that is there; the others follow from it. */
  const say = async (reason) => {
    if (isSaid) return;
    isSaid = true;
    if (document.readyState === "loading") await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));
    const shown = document.createElement("p");
    shown.className = "problem not-loaded";
    shown.role = "alert";
    shown.textContent = `The page did not load as a whole. ${await reason}`;
    document.body.prepend(shown);
  };

  /** Why a file did not come, by another request for it. */
  const why = async (address) => {
    const name = new URL(address).pathname;
    try {
      const response = await fetch(address, { cache: "no-store" });
      if (!response.ok) {
        const { detail = "" } = await response.json().catch(() => ({}));
        return `${name}: status ${response.status} ${detail || response.statusText}`;
      }
      const type = response.headers.get("Content-Type") ?? "no type";
      return /javascript|css/.test(type) ? `${name} came at the second request; load the page again.` : `${name}: another server than the API answered, with ${type}.`;
    } catch {
      return `${name}: no answer came. The network is down, or something blocks the file.`;
    }
  };

  window.addEventListener(
    "error",
    ({ target, message, filename }) => {
      if (target instanceof Element) say(why(target.src || target.href));
      else if (document.querySelector(".boot")) say(`${message} (${filename})`);
    },
    true,
  );
  window.addEventListener("unhandledrejection", ({ reason }) => document.querySelector(".boot") && say(String(reason)));
}
