// The chosen clip: its picture, its distances and its states.

/** A distance as a bar of its parts, on the scale of the largest. */
function stack(parts, largest, names = PARTS, kind = "stack") {
  const text = names.map((name, k) => `${name} ${number(parts[k])}`).join(", ");
  const pieces = parts.map((part, k) => make("i", { class: `part${k % HUES}`, "--size": `${(100 * part) / largest}%` }));
  return make("span", { class: kind, role: "img", "aria-label": text, title: text }, ...pieces);
}

/** The name of a part beside its colour. */
const keyed = (k, text) => make("span", { class: "label" }, make("i", { class: `part${k % HUES} swatch` }), text);

const total = (parts) => parts.reduce((sum, part) => sum + part, 0);

/** Whether two clips were cut from one recording, as far as that is known. */
const sameSource = (first, second) => clips[first].source !== null && clips[first].source === clips[second].source;

function neighbourRows(clip, largest) {
  return data.neighbours[clip].map((other, k) => {
    const parts = data.neighbour_parts[clip][k];
    const same = truth[other] === truth[clip];
    const button = make(
      "button",
      { type: "button", class: "thumb bare", "aria-label": `Choose ${clips[other].name}`, onclick: () => choose(other) },
      picture(other),
    );
    const name = make("span", { class: "name" }, clips[other].name);
    const mark = make("span", { class: same ? "right" : "wrong" }, same ? "✓ " : "✗ ", labelled(truth[other]));
    const tag = sameSource(clip, other) ? make("span", { class: "tag" }, "same source") : null;
    const middle = make("div", {}, make("div", { class: "line-of" }, name, tag, mark), stack(parts, largest));
    return make("li", { class: "with-picture" }, button, middle, make("span", { class: "number" }, number(total(parts))));
  });
}

/** Each class with its score, if scores decide, the clip's distance to it and its probability, the best first. */
function classRows(clip, method) {
  const { distances, probabilities, parts, scores } = data.explanations[method];
  const [away, likely, pieces, scored] = [distances[clip], probabilities?.[clip], parts[clip], scores[clip]];
  const predicted = data.predictions[method][clip];
  const far = (code) => away[code] ?? Infinity;
  const order = classes.map((_, code) => code);
  const score = (code) => scored?.[code] ?? -Number.MAX_VALUE;
  const first = (code) => Number(code === predicted);
  order.sort((a, b) => (scored ? score(b) - score(a) : likely ? likely[b] - likely[a] : 0) || first(b) - first(a) || far(a) - far(b));
  const largest = Math.max(...away.filter((value) => value !== null)) || 1;
  return order.map((code) => {
    const own = code === truth[clip];
    const split = code === predicted && pieces.length;
    const bar = split
      ? stack(pieces, largest, data.explanations[method].names)
      : stack([away[code] ?? 0], largest, ["squared distance"], "stack whole");
    const tag = code === predicted ? make("span", { class: "tag" }, "predicted") : null;
    return make(
      "li",
      { class: [own ? "own" : "", scored ? "scored" : ""].join(" ").trim() || null },
      make("span", { class: "name" }, labelled(code), own ? make("span", { class: "hidden" }, " (its own class)") : null, tag),
      scored ? make("span", { class: "number" }, scored[code] === null ? "none" : scored[code].toFixed(3)) : null,
      bar,
      make("span", { class: "number" }, away[code] === null ? "none" : number(away[code])),
      make("span", { class: "number" }, likely ? percent(likely[code]) : ""),
    );
  });
}

/** What decides, and what the numbers of a class are. */
function decisionOf(clip, method) {
  const { probabilities, scores } = data.explanations[method];
  const likely = probabilities ? ", then its probability" : "";
  return scores[clip]
    ? `The class with the largest score is predicted. The squared distances, as this method measures them, show how near the classes are; they do not decide. The first number of a class is its score, the second, after the bar, its squared distance${likely}.`
    : `The class with the smallest squared distance, as this method measures it, is predicted. After the bar is the squared distance to the class${likely}.`;
}

/** What the colours in the bar of the predicted class mean, and their numbers. */
function partsOf(clip, method) {
  const { names, parts } = data.explanations[method];
  if (!names.length) return [];
  const values = parts[clip];
  const whole = total(values) || 1;
  return [
    "The distance to the predicted class is the sum of ",
    ...names.flatMap((name, k) => [keyed(k, `${name} ${percent(values[k] / whole, 0)}`), " "]),
  ];
}

function cardOf(clip) {
  const { name, source } = clips[clip];
  const answers = data.methods.map((method, k) => {
    const right = data.predictions[k][clip] === truth[clip];
    const words = `${right ? "✓" : "✗"} ${classes[data.predictions[k][clip]]}`;
    return make("li", {}, `${method}: `, make("span", { class: right ? "right" : "wrong" }, words));
  });
  const agree = data.predictions.filter((method) => method[clip] === truth[clip]).length;
  return [
    picture(clip),
    make(
      "div",
      {},
      make("strong", { class: "name" }, name),
      make("p", {}, labelled(truth[clip]), " ", predictionOf(clip)),
      source === null ? null : make("p", { class: "small" }, `source: ${source}`),
      make(
        "details",
        {},
        make("summary", {}, `classified correctly by ${agree} of ${counted(data.methods.length, "method")}`),
        make("ul", {}, ...answers),
      ),
    ),
  ];
}

function statesOf(system) {
  const all = numbersOf(system.states);
  const count = all.length / system.steps;
  return Array.from({ length: count }, (_, k) => all.subarray(k * system.steps, (k + 1) * system.steps));
}

function paintStates(width) {
  const box = find("clip-states");
  const system = data.systems[chosen];
  if (!system.states) return box.replaceChildren();
  const states = statesOf(system);
  const reach = Math.max(...states.map((state) => Math.max(...state.map(Math.abs)))) || 1;
  const { svg, atX, atY } = chart({
    width,
    height: 190,
    x: [0, Math.max(1, system.steps - 1)],
    y: [-1.08 * reach, 1.08 * reach],
    title: `The first ${counted(states.length, "state")} over time`,
    xTitle: "frame",
  });
  states.forEach((state, k) => {
    const points = Array.from(state, (value, time) => [atX(time), atY(value)]);
    svg.append(draw("path", { class: `line hue${k} dash${k} thin`, d: line(points) }));
  });
  box.replaceChildren(legendOf(states.map((_, k) => `state ${k + 1}`)), svg);
}

function paintPortrait(width) {
  const box = find("clip-portrait");
  const system = data.systems[chosen];
  const states = system.states ? statesOf(system) : [];
  if (states.length < 2) return box.replaceChildren();
  const size = Math.min(width, 220);
  const reach = Math.max(...states.slice(0, 2).map((state) => Math.max(...state.map(Math.abs)))) * 1.08 || 1;
  const at = (value) => (size / 2) * (1 + value / reach);
  const points = Array.from(states[0], (value, time) => [at(value), at(-states[1][time])]);
  const svg = draw("svg", { width: size, height: size, role: "img", "aria-label": "State 2 against state 1" });
  svg.append(
    draw("path", { class: "grid", d: `M0 ${size / 2}H${size}M${size / 2} 0V${size}` }),
    draw("path", { class: "line hue0 thin", d: line(points) }),
    draw("circle", { class: "value", cx: points[0][0], cy: points[0][1], r: 4 }),
  );
  box.replaceChildren(svg);
}

function paintEigenvalues(width) {
  const values = data.systems[chosen].eigenvalues;
  find("clip-eigenvalues").replaceChildren(unitCircle(values, Math.min(width, 220), "Eigenvalues of the transition"));
}

function makeClip() {
  const choice = find("clip-choice");
  const groups = classes.map((name) => make("optgroup", { label: name }));
  clips.forEach(({ name }, k) => groups[truth[k]].append(make("option", { value: k }, `${isWrong(k) ? "✗ " : ""}${name}`)));
  choice.append(...groups);
  const order = [...choice.options].map((option) => Number(option.value));
  const step = (by) => choose(order[(order.indexOf(chosen) + by + order.length) % order.length]);
  choice.addEventListener("change", () => choose(Number(choice.value)));
  find("clip-before").addEventListener("click", () => step(-1));
  find("clip-after").addEventListener("click", () => step(1));
  find("clip-key").append(
    "Squared alignment distances, each the sum of ",
    ...PARTS.flatMap((name, k) => [keyed(k, name), " "]),
    "(",
    make("span", { class: "together" }, weightName("lambda_a"), ` = ${short(data.lambda_a)}`),
    ", ",
    make("span", { class: "together" }, weightName("lambda_mu"), ` = ${short(data.lambda_mu)}).`),
  );
  const method = find("clip-method");
  data.methods.forEach((name, k) => {
    if (data.explanations[k]) method.append(make("option", { value: k, selected: k === data.main }, name));
  });
  find("clip-reasons").hidden = !method.options.length;
  const explain = () => {
    if (!method.options.length) return;
    find("clip-decision").textContent = decisionOf(chosen, Number(method.value));
    find("clip-classes").replaceChildren(...classRows(chosen, Number(method.value)));
    find("clip-parts").replaceChildren(...partsOf(chosen, Number(method.value)));
  };
  method.addEventListener("change", explain);
  painted(find("clip-states"), paintStates);
  painted(find("clip-portrait"), paintPortrait);
  painted(find("clip-eigenvalues"), paintEigenvalues);
  listeners.push((clip) => {
    choice.value = clip;
    find("clip-card").replaceChildren(...cardOf(clip));
    explain();
    const largest = Math.max(...data.neighbour_parts[clip].map(total)) || 1;
    find("clip-neighbours-note").textContent = data.neighbours[clip].some((other) => sameSource(clip, other))
      ? "Clips with the tag “same source” were cut from the same recording as the chosen clip."
      : "";
    find("clip-neighbours").replaceChildren(...neighbourRows(clip, largest));
    const { steps, frames } = data.systems[clip];
    const cut = frames > steps ? `, for the first ${steps} of ${frames} frames` : "";
    find("clip-states-note").textContent = steps
      ? `The first states of the clip's system over time${cut}.`
      : "The states of this system were not stored.";
    for (const id of ["clip-states", "clip-portrait", "clip-eigenvalues"]) repaint(find(id));
  });
}

makeClip();
const firstMistake = clips.findIndex((_, clip) => isWrong(clip));
choose(Math.max(0, firstMistake));
