// Tables sort by the column that is pressed, pictures fill the window when they are pressed, and the page is complete without either.
document.querySelectorAll("thead th").forEach((head) => {
  if (!head.firstElementChild) head.innerHTML = `<button type="button">${head.innerHTML}</button>`;
  head.firstElementChild.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    const cell = (row) => row.cells[head.cellIndex];
    const number = (row) => parseFloat(cell(row).dataset.v ?? cell(row).textContent.replace(/,/g, "").replace("−", "-"));
    const numbers = [...body.rows].some((row) => Number.isFinite(number(row)));
    const value = (row) => (Number.isFinite(number(row)) ? number(row) : -Infinity);
    const order = numbers ? (a, b) => value(a) - value(b) || 0 : (a, b) => cell(a).textContent.localeCompare(cell(b).textContent);
    const rows = [...body.rows].sort((a, b) => sign * order(a, b));
    head.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...rows);
  });
});
document.querySelectorAll("figure").forEach((figure) => {
  const zoom = (on) => {
    figure.classList.toggle("zoomed", on);
    figure.setAttribute("aria-expanded", figure.classList.contains("zoomed"));
  };
  figure.tabIndex = 0;
  figure.setAttribute("role", "button");
  figure.setAttribute("aria-label", "picture; press to enlarge");
  zoom(false);
  figure.addEventListener("click", () => zoom());
  figure.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") zoom();
    else if (event.key === "Escape") zoom(false);
    else return;
    event.preventDefault();
  });
});
