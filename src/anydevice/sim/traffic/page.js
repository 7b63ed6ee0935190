// A click on a heading sorts by it; a second click turns the order round.
const body = document.querySelector("tbody");
document.querySelectorAll("th button").forEach((button, column) => {
  let descending = false;
  button.addEventListener("click", () => {
    descending = !descending;
    const key = (row) => row.cells[column].dataset.key;
    const compare = (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
    const byNumber = (a, b) => Number(key(a)) - Number(key(b));
    const rows = [...body.rows];
    const numeric = rows.every((row) => key(row) !== "" && !Number.isNaN(Number(key(row))));
    rows.sort(numeric ? byNumber : compare);
    if (descending) rows.reverse();
    body.append(...rows);
  });
});
