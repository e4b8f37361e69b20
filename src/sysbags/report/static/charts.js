// Charts with axes, and the curves of the two weights.

const INDICES = { lambda_a: "A", lambda_mu: "μ" };

/** A weight's name, as HTML or (with `draw`) for a text in SVG. */
const weightName = (weight, maker = make) =>
  maker === make
    ? make("span", {}, "λ", make("sub", {}, INDICES[weight]))
    : draw("tspan", {}, "λ", draw("tspan", { dy: 4, "font-size": 9 }, INDICES[weight]));

/** Round numbers that cover a range, about so many. */
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= 0.999 * rough);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-6); k * step <= high + 1e-6 * step; k++) values.push(k * step);
  return values;
}

const short = (value) => String(Number(value.toPrecision(6)));

/** An empty chart: its SVG element, and where a pair of values lies in it. */
function chart({ width, height, x, y, title, xTitle, xText = short, yTitle = "", yText = short }) {
  const yTicks = ticks(y[0], y[1], height / 44);
  const left = 12 + 7.2 * Math.max(...yTicks.map((tick) => yText(tick).length));
  const xTicks = ticks(x[0], x[1], width / 70);
  const lastHalf = 4 * Math.max(...xTicks.map((tick) => xText(tick).length));
  const [right, top, bottom] = [width - Math.max(12, lastHalf), yTitle ? 26 : 8, height - 38];
  const atX = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (right - left);
  const atY = (value) => bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (bottom - top);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const tick of yTicks) {
    svg.append(
      draw("path", { class: "grid", d: `M${left} ${atY(tick)}H${right}` }),
      draw("text", { x: left - 6, y: atY(tick) + 4, "text-anchor": "end" }, yText(tick)),
    );
  }
  for (const tick of xTicks) {
    svg.append(
      draw("path", { class: "axis", d: `M${atX(tick)} ${bottom}v4` }),
      draw("text", { x: atX(tick), y: bottom + 17, "text-anchor": "middle" }, xText(tick)),
    );
  }
  svg.append(
    draw("path", { class: "axis", d: `M${left} ${bottom}H${right}` }),
    draw("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, xTitle),
    draw("text", { x: 0, y: 12 }, yTitle),
  );
  return { svg, atX, atY };
}

const line = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

function legendOf(names) {
  const items = names.map((name, k) =>
    make(
      "li",
      {},
      draw(
        "svg",
        { viewBox: "0 0 28 14", class: "stroke", "aria-hidden": "true" },
        draw("path", { class: `line hue${k} dash${k}`, d: "M0 7H28" }),
      ),
      name,
    ),
  );
  return make("ul", { class: "legend plain" }, ...items);
}

/** The numbers of a chart as a table. */
function numbersTable(curves, weight) {
  const heads = [weightName(weight), ...curves.map((curve) => curve.classifier)];
  const values = [...new Set(curves.flatMap((curve) => curve.values))].sort((a, b) => a - b);
  const rows = values.map((value) => {
    const cells = curves.map((curve) => curve.accuracies[curve.values.indexOf(value)]);
    const texts = cells.map((share) => make("td", { class: "number" }, share == null ? "" : percent(share)));
    return make("tr", {}, make("th", { scope: "row" }, short(value)), ...texts);
  });
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("details", {}, make("summary", {}, "Numbers"), make("div", { class: "scroll" }, table));
}

function curvesOf(weight) {
  const curves = data.curves.filter((curve) => curve.weight === weight);
  if (!curves.length) return null;
  const other = weight === "lambda_a" ? "lambda_mu" : "lambda_a";
  const fixed = [...new Set(curves.map((curve) => short(curve.fixed)))].join(" and ");
  const title = make("h3", {}, weightName(weight), ", with ", weightName(other), ` = ${fixed}`);
  const box = make("div", { class: "chart" });
  const shares = curves.flatMap((curve) => curve.accuracies);
  const values = curves.flatMap((curve) => curve.values);
  const room = Math.max(0.01, 0.08 * (Math.max(...shares) - Math.min(...shares)));
  painted(box, (width) => {
    const { svg, atX, atY } = chart({
      width,
      height: Math.min(320, Math.max(230, 0.6 * width)),
      x: [Math.min(...values), Math.max(...values)],
      y: [Math.max(0, Math.min(...shares) - room), Math.min(1, Math.max(...shares) + room)],
      title: `Accuracy against lambda ${INDICES[weight]}`,
      xTitle: weightName(weight, draw),
      yTitle: "accuracy",
      yText: (share) => `${short(100 * share)} %`,
    });
    curves.forEach((curve, k) => {
      const points = curve.values.map((value, n) => [atX(value), atY(curve.accuracies[n])]);
      svg.append(draw("path", { class: `line hue${k % HUES} dash${k % 4}`, d: line(points) }));
      points.forEach(([x, y], n) => {
        const text = `${curve.classifier}: ${percent(curve.accuracies[n])} at ${short(curve.values[n])}`;
        const dot = draw("circle", { cx: x, cy: y, r: 3.2, class: `dot hue${k % HUES}` }, draw("title", {}, text));
        svg.append(dot);
      });
    });
    box.replaceChildren(svg);
  });
  const names = curves.map((curve) => curve.classifier);
  return make("figure", {}, title, legendOf(names), box, numbersTable(curves, weight));
}

find("curves")?.append(...Object.keys(INDICES).map(curvesOf).filter(Boolean));

/** Eigenvalues and the unit circle, in a square of so many pixels. */
function unitCircle(values, size, title) {
  const reach = 1.12;
  const svg = draw("svg", {
    width: size,
    height: size,
    viewBox: `${-reach} ${-reach} ${2 * reach} ${2 * reach}`,
    role: "img",
    "aria-label": title,
  });
  svg.append(
    draw("path", { class: "grid", d: `M${-reach} 0H${reach}M0 ${-reach}V${reach}` }),
    draw("circle", { class: "axis", r: 1 }),
  );
  for (const [re, im] of values) {
    const text = `${re} ${im < 0 ? "−" : "+"} ${Math.abs(im)} i`;
    svg.append(draw("circle", { cx: re, cy: -im, r: (reach * 8) / size, class: "value" }, draw("title", {}, text)));
  }
  return svg;
}
