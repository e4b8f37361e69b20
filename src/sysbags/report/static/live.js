"use strict";
(() => {
const MOST = 3000, TOP = 3; // points; the largest value of the chart
const points = [], events = new Map();
const $ = id => document.getElementById(id);
const number = value => value === null ? "?" : Number(value.toPrecision(3)).toString();

function clock(seconds) {
  const whole = Math.floor(seconds), pad = n => String(n).padStart(2, "0");
  return `${pad(Math.floor(whole / 3600))}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
}

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text;
  parent.append(made);
  return made;
}

function draw() {
  if (!points.length) return;
  const first = points[0].time, last = points[points.length - 1].time, span = Math.max(last - first, 1e-9);
  const x = time => (1000 * Math.min(Math.max((time - first) / span, 0), 1)).toFixed(1);
  for (const name of ["score", "evidence"]) {
    const places = points.filter(point => point[name] !== null)
      .map(point => `${x(point.time)} ${(300 * (1 - Math.min(point[name], TOP) / TOP)).toFixed(1)}`);
    $(name).setAttribute("d", places.length ? `M${places.join("L")}` : "");
  }
  $("shades").replaceChildren(...[...events.values()].filter(event => (event.end ?? last) >= first).map(event => {
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect"), left = x(event.start);
    for (const [key, value] of Object.entries({ x: left, y: 0, height: 300, width: Math.max(x(event.end ?? last) - left, 2) }))
      box.setAttribute(key, value);
    return box;
  }));
  $("from").textContent = clock(first);
  $("to").textContent = clock(last);
}

function showEvent(event) {
  const key = `${event.id} ${event.region}`, old = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  events.set(key, event);
  const item = document.createElement("li");
  item.dataset.key = key;
  const when = clock(event.start) + (event.start_utc ? ` (${event.start_utc})` : "");
  const part = event.part ? ` of the ${event.part}` : "", where = event.region ? ` in ${event.region}` : "";
  const long = event.end === undefined ? "goes on" : `${event.duration.toFixed(1)} s`;
  const by = event.bag ? `, by ${event.bag}` : "";
  item.textContent = `${when}${where}: ${event.kind}${part}${by}, ${long}`;
  if (event.per_day !== null) item.textContent += `; in what is normal ${number(event.per_day)} times per day`;
  if (event.address) {
    const video = element("video", "", item);
    Object.assign(video, { controls: true, muted: true, playsInline: true, preload: "none", src: event.address });
    video.setAttribute("aria-label", `Clip of the event at ${when}`);
  }
  if (old) old.replaceWith(item); else $("events").prepend(item);
  $("none").hidden = true;
}

function showRate(learnt) {
  const name = [learnt.region, learnt.bag].filter(Boolean).join(", ") || "all";
  const body = $("rates").tBodies[0], row = element("tr", "", body);
  for (const row of [...body.rows]) if (row.dataset.name === name) row.remove();
  row.dataset.name = name;
  const interval = `${number(learnt.observed_low_per_day)} to ${number(learnt.observed_high_per_day)}`;
  const [asked, part] = [learnt.asked_per_day, learnt.share_per_day].map(number);
  const share = asked === part ? asked : `${part} of ${asked}`;
  for (const text of [name, share, number(learnt.observed_per_day), interval, clock(learnt.observed_seconds)])
    element("td", text, row);
  $("rates").hidden = false;
  $("learning").hidden = true;
}

const shown = {
  point(point) {
    if (point.score === null && !points.length) return;  // it learns
    $("course").hidden = false;
    points.push(point);
    if (points.length > MOST) points.shift();
    draw();
  },
  record(record) {
    if (record.type === "event" || record.type === "event_start") { showEvent(record); draw(); }
    else if (record.type === "learnt") showRate(record);
    else if (record.text) {
      const note = element("li", record.text, $("notes"));
      $("noted").hidden = false;
      $("notes").prepend(note);
      while ($("notes").children.length > 50) $("notes").lastChild.remove();
    }
  },
  status(status) {
    hasEnded = status.state === "the run has ended";
    $("state").textContent = status.state;
    $("state").className = `state ${status.state === "event" ? "event" : ""}`;
    const skipped = status.skipped ? `, ${status.skipped} skipped` : "";
    $("facts").textContent = `${status.frames} ${status.unit}${skipped}, ${number(status.speed)} per second, ${status.events} event${status.events === 1 ? "" : "s"}`;
    if (status.has_picture && !document.hidden) {
      $("picture").hidden = false;
      $("frame").src = `frame.jpg?${status.frames}`;
    }
  },
};
let wasLost = false, hasEnded = false;
const source = new EventSource("stream");
for (const [name, show] of Object.entries(shown)) source.addEventListener(name, message => show(JSON.parse(message.data)));
source.onopen = () => {
  // Another run has numbers of its own: begin anew rather than join both.
  if (wasLost) location.reload();
};
source.onerror = () => {
  wasLost = true;
  if (hasEnded) return;
  $("state").textContent = "no connection";
  $("state").className = "state lost";
};
})();
