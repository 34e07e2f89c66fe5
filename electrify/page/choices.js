// Shows the chosen rows and columns of tables and the samples with a text, and opens the record of a row that is clicked.
for (const form of document.querySelectorAll("form.choices")) {
  const table = form.nextElementSibling.querySelector("table");
  const chosen = (of) => form.querySelector(`[data-of=${of}]`)?.value;
  const isShown = (element, group) => !group || !element.dataset.group || element.dataset.group === group;
  form.addEventListener("change", () => {
    for (const cell of table.querySelectorAll("th[data-group], td[data-group]")) {
      cell.hidden = !isShown(cell, chosen("column"));
    }
    for (const row of table.tBodies[0].rows) {
      const cells = [...row.querySelectorAll("td[data-group]")].filter((cell) => !cell.hidden);
      const hasScore = !cells.length || cells.some((cell) => cell.textContent.trim() !== "–");
      row.hidden = !hasScore || !isShown(row, chosen("row"));
    }
  });
  form.dispatchEvent(new Event("change")); // a browser may remember a choice
  table.addEventListener("click", (event) => {
    const link = event.target.closest("tr").querySelector("a");
    if (link && !event.target.closest("a")) link.click();
  });
}
for (const input of document.querySelectorAll("input[type=search]")) {
  const samples = input.closest(".folded").querySelectorAll("dl.samples dd");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const text of samples) {
      const label = text.previousElementSibling;
      text.hidden = label.hidden = !`${label.textContent}\n${text.textContent}`.toLowerCase().includes(wanted);
    }
  });
}
addEventListener("hashchange", () => {
  const record = document.getElementById(location.hash.slice(1));
  if (record) {
    record.closest("details").open = true;
    record.scrollIntoView();
  }
});
