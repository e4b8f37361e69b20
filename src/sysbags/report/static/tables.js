// Sorts the table of methods; makes the confusion matrix and the list of confused pairs.

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const kind = head.dataset.sort;
    if (!kind) return;
    const button = make("button", { type: "button", class: "sort" }, head.textContent);
    button.addEventListener("click", () => {
      const first = kind === "falling" ? "descending" : "ascending";
      const other = kind === "falling" ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      for (const cell of heads) cell.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      for (const body of table.tBodies) sortRows(body, column, kind === "text", order === "descending");
    });
    head.replaceChildren(button);
  });
}

function sortRows(body, column, asText, falling) {
  const value = (row) => row.cells[column]?.dataset.value ?? "";
  const compare = (first, second) => {
    const [a, b] = [value(first), value(second)];
    if (!a || !b) return (a ? 0 : 1) - (b ? 0 : 1); // rows without a value come last in both orders
    return (asText ? a.localeCompare(b) : a - b) * (falling ? -1 : 1);
  };
  body.append(...[...body.rows].sort(compare));
}

sortable(document.querySelector("table.methods"));

/** The clips of each true and predicted class. */
const cells = classes.map(() => classes.map(() => []));
truth.forEach((code, clip) => cells[code][predictions[clip]].push(clip));

function describe(row, column) {
  const count = counted(cells[row][column].length, "clip");
  return row === column
    ? `${count} of ${classes[row]} classified correctly`
    : `${count} of ${classes[row]} classified as ${classes[column]}`;
}

function showCell(row, column, buttons) {
  for (const button of buttons.flat()) button?.removeAttribute("aria-current");
  for (const button of buttons.flat()) if (button) button.tabIndex = -1;
  buttons[row][column].setAttribute("aria-current", "true");
  buttons[row][column].tabIndex = 0; // one stop of the Tab key for the whole matrix
  find("matrix-cell").replaceChildren(
    make("h3", {}, describe(row, column)),
    make("div", { class: "thumbs" }, ...cells[row][column].map((clip) => thumb(clip))),
  );
}

function matrix() {
  const buttons = classes.map((_, row) =>
    classes.map((_, column) => {
      if (!cells[row][column].length) return null;
      const show = () => showCell(row, column, buttons);
      const attributes = { type: "button", tabindex: -1, "aria-label": describe(row, column), onclick: show, onfocus: show };
      return make("button", attributes, cells[row][column].length);
    }),
  );
  const heads = classes.map((name) => make("th", { scope: "col" }, make("span", { class: "upright", title: name }, name)));
  const rows = classes.map((name, row) => {
    const total = cells[row].reduce((sum, cell) => sum + cell.length, 0);
    const counts = classes.map((_, column) => {
      const share = cells[row][column].length / Math.max(total, 1);
      const kind = share ? (row === column ? "hit" : "miss") : "none";
      return make("td", { class: kind, "--share": `${Math.round(14 + 56 * share)}%` }, buttons[row][column] ?? "·");
    });
    const rate = total ? percent(cells[row][row].length / total, 0) : "";
    return make("tr", {}, make("th", { scope: "row" }, labelled(row)), ...counts, make("td", { class: "number" }, rate));
  });
  const corner = make("td", { class: "corner" }, "true class");
  const head = make("tr", {}, corner, ...heads, make("th", { scope: "col" }, make("span", { class: "upright" }, "correct")));
  const table = make("table", { class: "matrix" }, make("thead", {}, head), make("tbody", {}, ...rows));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    let row = buttons.findIndex((line) => line.includes(event.target));
    let column = buttons[row]?.indexOf(event.target);
    do {
      row += step[0];
      column += step[1];
    } while (buttons[row] && column >= 0 && column < classes.length && !buttons[row][column]);
    buttons[row]?.[column]?.focus();
  });
  find("matrix-box").append(table);
  const worst = confused()[0];
  if (worst) showCell(...worst.directions[0], buttons);
  else {
    const row = buttons.findIndex((line) => line.some(Boolean));
    showCell(row, buttons[row].findIndex(Boolean), buttons);
  }
}

/** Pairs of classes that are confused with each other, the most confused first. */
function confused() {
  const pairs = [];
  classes.forEach((_, first) => {
    for (let second = first + 1; second < classes.length; second++) {
      const directions = [[first, second], [second, first]].filter(([row, column]) => cells[row][column].length);
      const count = cells[first][second].length + cells[second][first].length;
      if (count) pairs.push({ first, second, directions, count });
    }
  });
  return pairs.sort((a, b) => b.count - a.count);
}

function listPairs(most = 8) {
  const pairs = confused();
  const entries = pairs.slice(0, most).map(({ first, second, directions, count }, place) => {
    const name = make("span", { class: "pair" }, labelled(first), " and ", labelled(second));
    const groups = directions.map(([row, column]) => {
      const thumbs = cells[row][column].map((clip) => thumb(clip));
      return make("div", {}, make("h4", {}, describe(row, column)), make("div", { class: "thumbs" }, ...thumbs));
    });
    const summary = make("summary", {}, name, make("span", { class: "count" }, counted(count, "clip")));
    return make("details", { open: place < 3 ? "" : null }, summary, make("div", { class: "directions" }, ...groups));
  });
  const rest = pairs.slice(most).length;
  find("pairs-list").append(
    ...(entries.length ? entries : [make("p", {}, "The main method classifies all clips correctly.")]),
    rest ? make("p", { class: "note" }, `${counted(rest, "further pair")} in the matrix above.`) : "",
  );
}

matrix();
listPairs();
