// The reliability diagram: how often predictions are right, against the probabilities that they have.

function reliabilityDiagram(bins, width) {
  const share = (value) => `${short(100 * value)} %`;
  const { svg, atX, atY } = chart({
    width,
    height: Math.min(width, 360),
    x: [0, 1],
    y: [0, 1],
    title: "Accuracy against the probability of the predicted class",
    xTitle: "probability of the predicted class",
    xText: share,
    yTitle: "accuracy",
    yText: share,
  });
  svg.append(draw("path", { class: "axis dash1", d: `M${atX(0)} ${atY(0)}L${atX(1)} ${atY(1)}` }));
  const points = bins.map((bin) => [atX(bin.confidence), atY(bin.accuracy)]);
  svg.append(draw("path", { class: "line hue0", d: line(points) }));
  const most = Math.max(...bins.map((bin) => bin.count));
  bins.forEach((bin, n) => {
    const text = `${counted(bin.count, "clip")} with ${percent(bin.confidence)}: ${percent(bin.accuracy)} correct`;
    const [cx, cy] = points[n].map((place) => place.toFixed(1));
    const r = (3 + 7 * Math.sqrt(bin.count / most)).toFixed(1);
    svg.append(draw("circle", { cx, cy, r, class: "dot hue0" }, draw("title", {}, text)));
  });
  return svg;
}

function reliabilityNumbers(bins) {
  const heads = ["Probability", "Accuracy", "Clips"].map((name) => make("th", { scope: "col" }, name));
  const cell = (text) => make("td", { class: "number" }, text);
  const rows = bins.map((bin) =>
    make("tr", {}, cell(percent(bin.confidence)), cell(percent(bin.accuracy)), cell(String(bin.count))),
  );
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
  return make("details", {}, make("summary", {}, "Numbers"), make("div", { class: "scroll" }, table));
}

if (data.reliability) {
  const box = make("div", { class: "chart" });
  find("reliability").append(box, reliabilityNumbers(data.reliability));
  painted(box, (width) => box.replaceChildren(reliabilityDiagram(data.reliability, width)));
}
