// The atlas: one card per class.

/** A histogram as bars that fill their box. */
function bars(values, title) {
  const top = Math.max(...values) || 1;
  const path = Array.from(values, (value, k) => `M${k} ${top}h1V${top - Math.max(value, 0)}h-1z`).join("");
  const attributes = { viewBox: `0 0 ${values.length} ${top}`, preserveAspectRatio: "none", class: "bars" };
  return draw("svg", { ...attributes, role: "img", "aria-label": title }, draw("path", { d: path }));
}

/** A canvas with one pixel per bin and frame: one colour above the average, another below it. */
function heat({ dynamics, bins, steps }, title) {
  const values = numbersOf(dynamics);
  const largest = Math.max(...values.map(Math.abs)) || 1;
  const canvas = make("canvas", { width: steps, height: bins.length, class: "heat", role: "img", "aria-label": title });
  const context = canvas.getContext("2d");
  const image = context.createImageData(steps, bins.length);
  values.forEach((value, k) => {
    const colour = value > 0 ? [40, 130, 210] : [224, 112, 20]; // blue and orange, seen on light and on dark
    image.data.set([...colour, 255 * Math.sqrt(Math.abs(value) / largest)], 4 * k);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

function atlasCard(mean) {
  const { code } = mean;
  const name = classes[code];
  const values = numbersOf(mean.histogram);
  const summed = values.length < mean.length ? `, added up to ${values.length}` : "";
  const thumbs = mean.nearest.map((clip, k) => {
    const file = clips[clip].name.replace(`${name}/`, "");
    return thumb(clip, number(mean.distances[k]), file);
  });
  return make(
    "article",
    { class: "panel", "aria-label": name },
    make("h3", {}, labelled(code), make("span", { class: "count" }, counted(mean.size, "clip"))),
    make("h4", {}, "Clips nearest to the mean"),
    make("div", { class: "thumbs three" }, ...thumbs),
    make(
      "div",
      { class: "figures" },
      make("figure", {}, unitCircle(mean.eigenvalues, 116, `Eigenvalues of the mean of ${name}`), make("figcaption", {}, "eigenvalues")),
      make(
        "figure",
        {},
        bars(values, `Mean histogram of ${name}`),
        make("figcaption", {}, `mean histogram, ${mean.length} bins${summed}`),
      ),
    ),
    make(
      "figure",
      {},
      heat(mean, `Simulated stream of ${name}`),
      make("figcaption", {}, `simulated stream: ${counted(mean.bins.length, "bin")}, ${counted(mean.steps, "frame")}`),
    ),
  );
}

find("atlas-list").append(...data.atlas.map(atlasCard));
