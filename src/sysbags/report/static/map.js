// The map: one mark per clip. Marks keep their size at any zoom.

const ZOOMS = [1, 1.6, 2.5, 4, 6.5, 10];
const REACH = 26; // pixels from a mark within which the pointer selects it
const EDGE = 16;

function makeMap() {
  const box = find("map-box");
  const hidden = new Set();
  const xs = data.plane.map((point) => point[0]);
  const ys = data.plane.map((point) => point[1]);
  const middle = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
  const spread = [Math.max(...xs) - Math.min(...xs) || 1, Math.max(...ys) - Math.min(...ys) || 1];
  let zoom = 0;
  let places = [];

  const marks = clips.map((clip, k) => {
    const words = isWrong(k) ? `classified as ${classes[predictions[k]]}` : "correct";
    const mark = draw("g", {
      class: "clip",
      role: "button",
      tabindex: -1,
      "aria-label": `${clip.name}, ${classes[truth[k]]}, ${words}`,
      onfocus: () => show(k),
      onblur: () => show(-1),
    });
    if (isWrong(k)) mark.append(draw("circle", { class: "ring", r: 9.5 }));
    mark.append(markOf(truth[k]));
    return mark;
  });
  const links = draw("path", { class: "links" });
  const halo = draw("circle", { class: "halo", r: 14 });
  const svg = draw("svg", { role: "group", "aria-label": "Map of all clips" }, links, halo, ...marks);
  const card = make("div", { class: "card", "aria-hidden": "true", hidden: "" });
  box.append(svg, card);

  const visible = (k) => !hidden.has(truth[k]) && !(find("map-wrong").checked && !isWrong(k));

  /** Put every mark in its place: at once for a new width, otherwise with a transition. */
  function lay(newWidth) {
    const width = newWidth ?? painters.get(box).width;
    if (!width) return;
    svg.classList.toggle("gliding", newWidth === undefined);
    const height = Math.round(width * Math.min(1, Math.max(0.62, spread[1] / spread[0])));
    const scale = ZOOMS[zoom] * Math.min((width - 2 * EDGE) / spread[0], (height - 2 * EDGE) / spread[1]);
    const centre = zoom && chosen >= 0 ? data.plane[chosen] : middle;
    const size = Math.min(1, Math.max(0.7, width / 560)); // of a mark: on a phone they are close
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    places = data.plane.map(([x, y]) => [width / 2 + scale * (x - centre[0]), height / 2 - scale * (y - centre[1])]);
    marks.forEach((mark, k) => {
      mark.style.transform = `translate(${places[k][0].toFixed(1)}px, ${places[k][1].toFixed(1)}px) scale(${size})`;
      mark.classList.toggle("away", !visible(k));
    });
    if (chosen < 0) return;
    halo.style.transform = marks[chosen].style.transform;
    const ends = data.neighbours[chosen].filter(visible);
    links.setAttribute("d", ends.map((end) => line([places[chosen], places[end]])).join(""));
  }

  function show(k) {
    card.hidden = k < 0 || !places.length;
    if (card.hidden) return;
    card.replaceChildren(
      picture(k),
      make("strong", {}, clips[k].name),
      make("span", {}, labelled(truth[k])),
      predictionOf(k),
    );
    const [x, y] = places[k];
    const room = [svg.clientWidth - card.offsetWidth, y - card.offsetHeight - 18];
    card.style.left = `${Math.max(0, Math.min(room[0], x - card.offsetWidth / 2))}px`;
    card.style.top = `${room[1] > 0 ? room[1] : y + 18}px`;
  }

  function nearest(event) {
    const frame = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const away = places.map((place, k) => (visible(k) ? Math.hypot(place[0] - x, place[1] - y) : Infinity));
    const best = away.indexOf(Math.min(...away));
    return away[best] <= REACH ? best : -1;
  }

  /** The mark that an arrow key leads to: near, and ahead rather than aside. */
  function ahead([dx, dy]) {
    let [best, least] = [chosen, Infinity];
    places.forEach(([x, y], k) => {
      const along = (x - places[chosen][0]) * dx + (y - places[chosen][1]) * dy;
      const aside = Math.abs((x - places[chosen][0]) * dy) + Math.abs((y - places[chosen][1]) * dx);
      const cost = along + 2.5 * aside;
      if (k !== chosen && visible(k) && along > 0.05 && cost < least) [best, least] = [k, cost];
    });
    return best;
  }

  svg.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") show(nearest(event));
  });
  svg.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") show(-1);
  });
  svg.addEventListener("click", (event) => {
    const clip = nearest(event);
    if (clip >= 0) choose(clip);
    show(clip);
  });
  svg.addEventListener("keydown", (event) => {
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (event.key === "Escape") show(-1);
    if (!(event.key in arrows)) return;
    event.preventDefault();
    choose(ahead(arrows[event.key]));
    marks[chosen].focus({ preventScroll: true });
    show(chosen);
  });
  listeners.push((clip) => {
    for (const mark of marks) mark.setAttribute("tabindex", -1);
    marks[clip].setAttribute("tabindex", 0);
    for (const mark of marks) mark.removeAttribute("aria-current");
    marks[clip].setAttribute("aria-current", "true");
    lay();
  });

  const keys = classes.map((name, code) => {
    const button = make("button", { type: "button", "aria-pressed": "true", title: name }, symbol(code), make("span", { class: "text" }, name));
    const toggle = (on) => {
      hidden[on ? "delete" : "add"](code);
      button.setAttribute("aria-pressed", on);
    };
    button.addEventListener("click", () => {
      toggle(hidden.has(code));
      lay();
    });
    return { button, toggle };
  });
  const all = (on) => {
    for (const { toggle } of keys) toggle(on);
    lay();
  };
  const zoomTo = (level) => {
    zoom = Math.min(ZOOMS.length - 1, Math.max(0, level));
    find("map-out").disabled = zoom === 0;
    find("map-in").disabled = zoom === ZOOMS.length - 1;
    lay();
  };
  find("map-legend").append(...keys.map(({ button }) => make("li", {}, button)));
  find("map-all").addEventListener("click", () => all(true));
  find("map-none").addEventListener("click", () => all(false));
  find("map-wrong").addEventListener("change", () => lay());
  find("map-in").addEventListener("click", () => zoomTo(zoom + 1));
  find("map-out").addEventListener("click", () => zoomTo(zoom - 1));
  painted(box, lay);
  zoomTo(0);
}

makeMap();
