"use strict";
// Each cell of a table with three columns or more gets the heading of its column, which book.css shows on narrow screens.
for (const table of document.querySelectorAll(".content table")) {
  const headings = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
  if (headings.length < 3) continue;
  table.classList.add("as-list");
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, column) => {
      if (headings[column]) cell.dataset.heading = headings[column];
    });
  }
}
