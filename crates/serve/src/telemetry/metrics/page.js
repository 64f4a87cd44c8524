"use strict";
// Replaces the content in place, so that the reader keeps the place on the page.
const PAUSE_MS = 2000;

async function refresh() {
  try {
    if (!document.hidden) {
      const response = await fetch("/", { cache: "no-store" });
      const next = new DOMParser().parseFromString(await response.text(), "text/html");
      document.title = next.title;
      document.querySelector("main").replaceWith(next.querySelector("main"));
      document.body.classList.remove("stale");
    }
  } catch {
    document.title = "no response · Thalweg status";
    document.body.classList.add("stale");
  }
  setTimeout(refresh, PAUSE_MS);
}

setTimeout(refresh, PAUSE_MS);
