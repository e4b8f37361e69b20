"use strict";
// Used by all panels. Names of clips and classes become text nodes or attributes, never markup.

const data = JSON.parse(document.getElementById("data").textContent);
const { classes, clips, truth } = data;
const predictions = data.predictions[data.main];
const PARTS = ["transition", "observer", "mean"];
const HUES = 7;
const SHAPES = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", // circle
  "M-4.5 -4.5h9v9h-9z", // square
  "M0 -6l5.7 10h-11.4z", // triangle
  "M0 -6.2l6.2 6.2l-6.2 6.2l-6.2 -6.2z", // diamond
  "M-2 -5.8h4v3.8h3.8v4h-3.8v3.8h-4v-3.8h-3.8v-4h3.8z", // plus
  "M0 6l5.7 -10h-11.4z", // triangle upside down
];

const find = (id) => document.getElementById(id);
const isWrong = (clip) => predictions[clip] !== truth[clip];
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const number = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** Quantised numbers as they were, up to rounding. */
function numbersOf({ scale, bytes }) {
  const text = atob(bytes);
  return Float32Array.from(text, (letter) => ((letter.charCodeAt(0) << 24) >> 24) * scale);
}

// Classes: seven colours by six shapes, so that classes differ in print and for colour-blind readers.
const markOf = (code) =>
  draw("path", {
    d: SHAPES[(Math.floor(code / HUES) + (code % HUES)) % SHAPES.length],
    class: `mark hue${code % HUES}`,
  });
const symbol = (code) => draw("svg", { viewBox: "-7 -7 14 14", class: "symbol", "aria-hidden": "true" }, markOf(code));
const labelled = (code) => make("span", { class: "label", title: classes[code] }, symbol(code), make("span", { class: "text" }, classes[code]));

function predictionOf(clip) {
  const right = !isWrong(clip);
  const words = right ? "✓ correct" : `✗ classified as ${classes[predictions[clip]]}`;
  return make("span", { class: right ? "right" : "wrong" }, words);
}

const picture = (clip) =>
  make("img", { src: `data:image/jpeg;base64,${data.pictures[clip]}`, alt: "", decoding: "async" });

/** A picture of a clip that chooses it. */
function thumb(clip, note, name = clips[clip].name) {
  return make(
    "button",
    { type: "button", class: "thumb", onclick: () => choose(clip, true) },
    picture(clip),
    make("span", { class: "name" }, name),
    note ? make("span", { class: "small" }, note) : null,
  );
}

// The chosen clip: each panel that shows it listens.
const listeners = [];
let chosen = -1;

function choose(clip, go = false) {
  chosen = clip;
  for (const listener of listeners) listener(clip);
  if (!go) return;
  history.pushState(null, "", "#clip"); // so that Back leads to where the clip was chosen
  find("clip").scrollIntoView();
  find("clip-head").focus({ preventScroll: true });
}

// Drawings are made for the width that they have, so that letters keep their size on a phone.
const painters = new Map();
const watcher = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) paint(target, Math.floor(contentRect.width));
});

function paint(element, width) {
  const painter = painters.get(element);
  if (width < 1 || width === painter.width) return;
  painter.width = width;
  painter.paint(width);
}

function painted(element, paint) {
  painters.set(element, { paint, width: 0 });
  watcher.observe(element);
}

function repaint(element) {
  const painter = painters.get(element);
  if (painter.width) painter.paint(painter.width);
}
