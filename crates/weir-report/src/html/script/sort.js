// Sorts the rows of a table by the column whose heading is pressed.

function sortValue(row, index) {
  const cell = row.cells[Math.min(index, row.cells.length - 1)];
  // Units follow a non-breaking space.
  const text = cell.textContent.trim().replace(/\s/g, " ");
  const found = text.match(/^-?[\d,]*\.?\d+/);
  if (!found || cell.colSpan > 1) return [1, 0, text];
  const units = { " s": 1e6, " ms": 1e3, " µs": 1 };
  const unit = Object.keys(units).find((name) => text.endsWith(name));
  return [0, Number(found[0].replaceAll(",", "")) * (unit ? units[unit] : 1), text];
}

function sortable(table) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  headings.forEach((heading, index) => {
    const button = element("button", "", heading.textContent || "subject");
    button.type = "button";
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [sortValue(row, index), row]);
      rows.sort(([a], [b]) => {
        const order = a[1] - b[1] || a[2].localeCompare(b[2]);
        return a[0] - b[0] || (descending ? -order : order);
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
    heading.replaceChildren(button);
  });
}

document.querySelectorAll(".sortable table").forEach(sortable);
