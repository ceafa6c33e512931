// Sorts the table of components by the column that is pressed; the page is complete without it.
document.querySelectorAll("thead button").forEach((button, column) => {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    const key = (row) => parseFloat(row.cells[column].dataset.v ?? "-Infinity");
    const rows = [...body.rows].sort((a, b) => sign * (key(a) - key(b)) || 0);
    head.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...rows);
  });
});
