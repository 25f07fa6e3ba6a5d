"use strict";
// Only conveniences: every page works without this file.

// The answer to a failed request is never swapped in; say so instead, next to what was tried.
document.addEventListener("htmx:response:error", (event) => {
  if (event.detail.ctx.response.status >= 500) showTrouble();
});
document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx) showTrouble();
});

function showTrouble() {
  const notice = document.getElementById("trouble");
  if (!notice) return;
  notice.hidden = false;
  notice.focus();
}

// A form sent the plain way must not be sent twice either. Coming back to the page frees it again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  setTimeout(() => form.querySelectorAll("button[type=submit]").forEach((b) => (b.disabled = true)));
});
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  document.querySelectorAll("form[method=post] button[type=submit]").forEach((b) => (b.disabled = false));
});

// An open page follows what happens elsewhere, but never over what somebody is writing.
document.addEventListener("htmx:before:swap", (event) => {
  if (event.detail.ctx.sourceElement?.id !== "watch" || !event.detail.ctx.text.includes("<main")) return;
  if (!isWriting()) return;
  event.preventDefault();
  document.getElementById("news").hidden = false;
});

function isWriting() {
  const fields = document.querySelectorAll("#main :is(input:not([type=hidden]), textarea, select)");
  return [...fields].some((field) => field === document.activeElement || isTouched(field));
}

function isTouched(field) {
  if (field.options) return field.selectedIndex > 0 && !field.options[field.selectedIndex].defaultSelected;
  return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
}

// What was scanned stands selected, so that the next scan replaces it.
function readyScanBox() {
  const box = document.querySelector("#scan[autofocus]");
  if (box && box.value) box.select();
}
readyScanBox();
document.addEventListener("htmx:after:swap", readyScanBox);

// Copy a key or reference.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const status = button.parentElement.querySelector("[role=status]");
  if (status) status.textContent = button.dataset.copied;
});
