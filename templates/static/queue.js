"use strict";
// Only a convenience: the list works without this file. While a row has the focus, j and k or the
// arrows go to the next and the one before, x chooses it, Enter opens it. Elsewhere keys do nothing.

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const row = event.target.closest("#result_list tbody tr");
  if (!row) return;
  if (event.key === "x") row.querySelector(".action-select")?.click();
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (step) (step > 0 ? row.nextElementSibling : row.previousElementSibling)?.querySelector("th a")?.focus();
  if (step || event.key === "x") event.preventDefault();
});

// Whoever comes to the list is at its first row, unless they are looking for something.
document.addEventListener("DOMContentLoaded", () => {
  const searching = document.querySelector("#searchbar")?.value;
  if (!searching && (document.activeElement === document.body || document.activeElement?.id === "searchbar")) {
    document.querySelector("#result_list tbody th a")?.focus({ preventScroll: true });
  }
});
