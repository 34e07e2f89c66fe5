// A click on the head of a column sorts the rows of its table by it, a second one the other way round.
const key = (row, column) => row.cells[column].textContent.replace(/[,%]/g, "").trim();
for (const head of document.querySelectorAll("thead th")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const sign = head.ariaSort === "descending" ? 1 : -1;
    for (const other of head.parentNode.cells) other.ariaSort = "none";
    head.ariaSort = sign === 1 ? "ascending" : "descending";
    const column = head.cellIndex;
    const rows = [...body.rows].sort((a, b) => {
      const [first, second] = [key(a, column), key(b, column)];
      const difference = parseFloat(first) - parseFloat(second);
      if (!Number.isNaN(difference)) return sign * difference;
      return sign * first.localeCompare(second);
    });
    body.append(...rows);
  });
}
