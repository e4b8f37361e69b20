// The table of methods gets sorted; the confusion matrix and the most confused pairs are made here.

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
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      for (const body of table.tBodies) sortRows(body, column, kind === "text", order === "descending");
    });
    head.replaceChildren(button);
  });
}

function sortRows(body, column, asText, falling) {
  const value = (row) => row.cells[column]?.dataset.value ?? "";
  const compare = (one, two) => {
    const [a, b] = [value(one), value(two)];
    if (!a || !b) return (a ? 0 : 1) - (b ? 0 : 1); // nothing to compare comes last either way
    return (asText ? a.localeCompare(b) : a - b) * (falling ? -1 : 1);
  };
  body.append(...[...body.rows].sort(compare));
}

sortable(document.querySelector("table.methods"));

/** The clips of each true class and verdict. */
const cells = classes.map(() => classes.map(() => []));
truth.forEach((code, clip) => cells[code][verdicts[clip]].push(clip));

function told(row, column) {
  const count = counted(cells[row][column].length, "clip");
  return row === column
    ? `${count} of ${classes[row]} recognised`
    : `${count} of ${classes[row]} taken for ${classes[column]}`;
}

function showCell(row, column, buttons) {
  for (const button of buttons.flat()) button?.removeAttribute("aria-current");
  for (const button of buttons.flat()) if (button) button.tabIndex = -1;
  buttons[row][column].setAttribute("aria-current", "true");
  buttons[row][column].tabIndex = 0; // one stop of the Tab key for the whole matrix
  find("matrix-cell").replaceChildren(
    make("h3", {}, told(row, column)),
    make("div", { class: "thumbs" }, ...cells[row][column].map((clip) => thumb(clip))),
  );
}

function matrix() {
  const buttons = classes.map((_, row) =>
    classes.map((_, column) => {
      if (!cells[row][column].length) return null;
      const show = () => showCell(row, column, buttons);
      const attributes = { type: "button", tabindex: -1, "aria-label": told(row, column), onclick: show, onfocus: show };
      return make("button", attributes, cells[row][column].length);
    }),
  );
  const heads = classes.map((name) => make("th", { scope: "col" }, make("span", { class: "upright" }, name)));
  const rows = classes.map((name, row) => {
    const total = cells[row].reduce((sum, some) => sum + some.length, 0);
    const counts = classes.map((_, column) => {
      const share = cells[row][column].length / Math.max(total, 1);
      const kind = share ? (row === column ? "hit" : "miss") : "none";
      return make("td", { class: kind, "--share": `${Math.round(14 + 56 * share)}%` }, buttons[row][column] ?? "·");
    });
    const rate = total ? percent(cells[row][row].length / total, 0) : "";
    return make("tr", {}, make("th", { scope: "row" }, labelled(row)), ...counts, make("td", { class: "number" }, rate));
  });
  const corner = make("td", { class: "corner" }, "true class");
  const head = make("tr", {}, corner, ...heads, make("th", { scope: "col" }, make("span", { class: "upright" }, "right")));
  const table = make("table", { class: "matrix" }, make("thead", {}, head), make("tbody", {}, ...rows));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    let row = buttons.findIndex((some) => some.includes(event.target));
    let column = buttons[row]?.indexOf(event.target);
    do {
      row += step[0];
      column += step[1];
    } while (buttons[row] && column >= 0 && column < classes.length && !buttons[row][column]);
    buttons[row]?.[column]?.focus();
  });
  find("matrix-box").append(table);
  const worst = confused()[0];
  if (worst) showCell(...(cells[worst.one][worst.two].length ? [worst.one, worst.two] : [worst.two, worst.one]), buttons);
  else {
    const row = buttons.findIndex((some) => some.some(Boolean));
    showCell(row, buttons[row].findIndex(Boolean), buttons);
  }
}

/** Pairs of classes that are taken for each other, the worst first. */
function confused() {
  const pairs = [];
  classes.forEach((_, one) => {
    for (let two = one + 1; two < classes.length; two++) {
      const clips = [...cells[one][two], ...cells[two][one]];
      if (clips.length) pairs.push({ one, two, clips });
    }
  });
  return pairs.sort((a, b) => b.clips.length - a.clips.length);
}

function pairs(most = 8) {
  const found = confused();
  const entries = found.slice(0, most).map(({ one, two, clips }, place) => {
    const name = make("span", { class: "pair" }, labelled(one), " and ", labelled(two));
    const count = make("span", { class: "count" }, counted(clips.length, "clip"));
    const directions = [[one, two], [two, one]].filter(([row, column]) => cells[row][column].length);
    const groups = directions.map(([row, column]) => {
      const thumbs = cells[row][column].map((clip) => thumb(clip));
      return make("div", {}, make("h4", {}, told(row, column)), make("div", { class: "thumbs" }, ...thumbs));
    });
    const body = make("div", { class: "directions" }, ...groups);
    return make("details", { open: place < 3 ? "" : null }, make("summary", {}, name, count), body);
  });
  const rest = found.slice(most).length;
  find("pairs-list").append(
    ...(entries.length ? entries : [make("p", {}, "The main method makes no mistake.")]),
    rest ? make("p", { class: "note" }, `${counted(rest, "further pair")} in the matrix above.`) : "",
  );
}

matrix();
pairs();
