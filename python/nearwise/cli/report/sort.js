"use strict";
for (const button of document.querySelectorAll("#classes thead button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    const number = heading.dataset.kind === "number";
    const key = (row) => number ? Number(row.cells[column].dataset.value) : row.cells[column].textContent;
    const compare = number ? (a, b) => a - b : (a, b) => a.localeCompare(b, undefined, { numeric: true });
    const body = heading.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort((a, b) => compare(a[0], b[0]) * (down ? -1 : 1));
    body.append(...rows.map((pair) => pair[1]));
    for (const other of heading.parentElement.cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
}
