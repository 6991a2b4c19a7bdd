// SPDX-License-Identifier: Apache-2.0
// Adds a box to pages with long tables: only rows that have all the words in it are shown.
// `?filter=WORDS` in the address fills it.
const MIN_ROWS = 60;
const rows = [...document.querySelectorAll(".md-content tbody tr")];

if (rows.length >= MIN_ROWS) {
  const box = document.createElement("input");
  box.type = "search";
  box.className = "table-filter";
  box.placeholder = box.ariaLabel = "Filter the tables";
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    for (const table of new Set(rows.map((row) => row.closest("table")))) {
      table.hidden = !table.querySelector("tbody tr:not([hidden])");
    }
  };
  box.value = new URLSearchParams(location.search).get("filter") ?? "";
  box.addEventListener("input", show);
  document.querySelector(".md-content h1").after(box);
  show();
}
