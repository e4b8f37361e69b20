"""The report in a real browser: drawings, console, requests, keyboard, phone and dark colours."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

import browser as chromium
from evaluations import EVIL, changed, make_evaluation, make_pictures, with_evil_names
from sysbags.report import page as report

pytestmark = pytest.mark.skipif(chromium.executable() is None, reason="no Chromium is installed")

PANELS = {
    "summary": ".interval .range",
    "methods": "tbody tr",
    "confusion": ".matrix td button",
    "confidence": "svg circle.dot",
    "weights": "svg path.line",
    "map": "#map-box g.clip",
    "clip": "#clip-classes .stack i",
    "pairs": "details .thumb img",
    "atlas": "article canvas",
    "runtimes": ".seconds .length",
}
DRAWN = """[...document.querySelectorAll('#ID SELECTOR')].map(e => {
    const box = e.getBoundingClientRect(); return Math.max(box.width, box.height); })"""
# Of each element with text of its own: what stands out from what, by the formula of WCAG 2.
CONTRASTS = """(() => {
    const numbers = text => text.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
    const parse = text => {
        const [r, g, b, a = 1] = numbers(text.replace(/^color\\(srgb/, ''));
        return [...(text.startsWith('color(') ? [r, g, b] : [r / 255, g / 255, b / 255]), a];
    };
    const light = ([r, g, b]) => [r, g, b].map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
    const over = (top, under) => [0, 1, 2].map(k => top[3] * top[k] + (1 - top[3]) * under[k]);
    const ground = e => {
        const colour = parse(getComputedStyle(e).backgroundColor);
        return colour[3] === 1 || !e.parentElement ? colour : [...over(colour, ground(e.parentElement)), 1];
    };
    const contrasts = [];
    for (const e of document.body.querySelectorAll('*')) {
        const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join('').trim();
        // Left alone: what is not shown, controls that cannot be used, and the dots of empty cells.
        if (!text || !e.checkVisibility() || e.disabled || e.matches('script, td.none')) continue;
        const style = getComputedStyle(e);
        const ink = parse(e.closest('svg') ? style.fill : style.color);
        const [lighter, darker] = [light(over(ink, ground(e))), light(ground(e))].sort((a, b) => b - a);
        const contrast = (lighter + 0.05) / (darker + 0.05);
        contrasts.push([contrast, `${e.tagName}.${e.className}: ${text.slice(0, 40)}`]);
    }
    return contrasts;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.Browser(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def evaluation():
    return make_evaluation()


@pytest.fixture(scope="module")
def file(evaluation, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.page(evaluation, make_pictures(evaluation)), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def quiet(browser):
    """Whatever a test does: no error in the console, and no request but the one for the file."""
    browser.events.clear()
    yield
    assert browser.complaints() == []
    assert len(browser.requests()) == 1
    assert browser.requests()[0].startswith("file:///")


def centre(browser, selector):
    return browser.evaluate(
        f"""(() => {{ const e = document.querySelector({selector!r});
        e.scrollIntoView({{block: 'center', behavior: 'instant'}});
        const box = e.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
    )


def chosen(browser):
    return browser.evaluate("document.querySelector('#clip-card .name').textContent")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_every_panel_is_drawn(browser, file, evaluation, width, scheme):
    browser.open(file, width=width, scheme=scheme)
    for name, selector in PANELS.items():
        sizes = browser.evaluate(DRAWN.replace("ID", name).replace("SELECTOR", selector))
        assert sizes, name
        assert max(sizes) > 1, name
    count = browser.evaluate("document.querySelectorAll('#map-box g.clip').length")
    assert count == len(evaluation.clips)
    images = "[...document.images].map(i => i.decode().then(() => i.naturalWidth * i.clientWidth))"
    assert min(browser.evaluate(f"Promise.all({images})")) > 0
    inside = """(() => { const frame = document.querySelector('#map-box svg').getBoundingClientRect();
        return [...document.querySelectorAll('#map-box g.clip')].every(mark => {
            const {x, y} = mark.getBoundingClientRect();
            return x >= frame.x && y >= frame.y && x < frame.right && y < frame.bottom; }); })()"""
    assert browser.evaluate(inside)
    blank = """[...document.querySelectorAll('canvas')].filter(c =>
        !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean)).length"""
    assert browser.evaluate(blank) == 0


@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_page_never_scrolls_sideways(browser, file, width):
    browser.open(file, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # What is wider scrolls in its own box, and row names stay in sight there.
    box = "document.querySelector('#matrix-box')"
    browser.evaluate(f"{box}.style.width = '200px'; {box}.scrollLeft = 60")
    moved = f"{box}.querySelector('tbody th').getBoundingClientRect().x - {box}.getBoundingClientRect().x"
    assert browser.evaluate(f"{box}.scrollLeft") > 0
    assert browser.evaluate(moved) == pytest.approx(0, abs=1)


def test_night_and_day(browser, file):
    grounds = []
    for scheme in ("light", "dark"):
        browser.open(file, scheme=scheme)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        contrasts = browser.evaluate(CONTRASTS)
        assert len(contrasts) > 100
        assert [what for contrast, what in contrasts if contrast < 4.5] == []
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_the_reliability_diagram_is_drawn_to_scale(browser, file, evaluation):
    browser.open(file)
    bins = evaluation.confidence_summary["reliability"]
    dots = browser.evaluate(
        """[...document.querySelectorAll('#reliability circle')].map(e =>
            [e.cx.baseVal.value, e.cy.baseVal.value, e.textContent])"""
    )
    assert len(dots) == len(bins)
    diagonal = (
        "document.querySelector('#reliability path.dash1').getAttribute('d').match(/[\\d.]+/g).map(Number)"
    )
    x0, y0, x1, y1 = browser.evaluate(diagonal)
    for (x, y, title), line in zip(dots, bins, strict=True):
        assert (x - x0) / (x1 - x0) == pytest.approx(
            line["confidence"], abs=1e-3
        )  # a tenth of a pixel is kept
        assert (y - y0) / (y1 - y0) == pytest.approx(line["accuracy"], abs=1e-3)
        assert f"{100 * line['accuracy']:.1f} % correct" in title
    rows = browser.evaluate("document.querySelectorAll('#reliability tbody tr').length")
    assert rows == len(bins)


def test_motion_is_reduced_when_asked(browser, file):
    asked = "[getComputedStyle(document.querySelector('g.clip')).transitionDuration," + (
        "getComputedStyle(document.documentElement).scrollBehavior]"
    )
    browser.open(file)
    browser.evaluate("document.getElementById('clip-after').click()")
    assert browser.evaluate(asked) == ["0.25s", "smooth"]
    browser.open(file, motion="reduce")
    browser.evaluate("document.getElementById('clip-after').click()")
    assert browser.evaluate(asked) == ["0s", "auto"]


def test_a_clip_is_chosen_by_the_select_box(browser, file, evaluation):
    browser.open(file)
    browser.evaluate("document.getElementById('clip-choice').focus()")
    order = browser.evaluate("[...document.getElementById('clip-choice').options].map(o => Number(o.value))")
    names = [evaluation.clips[k].name for k in order]
    before = chosen(browser)
    drawing = "document.querySelector('#clip-states > svg path.line').getAttribute('d')"
    lines = browser.evaluate(drawing)
    browser.press("ArrowDown")
    after = chosen(browser)
    assert names.index(after) == names.index(before) + 1
    assert browser.evaluate(drawing) != lines
    item = order[names.index(after)]
    near = [evaluation.clips[j].name for j in evaluation.details.relations.neighbours[item]]
    shown = "[...document.querySelectorAll('#clip-neighbours .name')].map(e => e.textContent)"
    assert browser.evaluate(shown) == near
    # The classes are explained by the classifier that made the prediction, the most probable first.
    reason = evaluation.methods[evaluation.main].explanations[item]
    rows = browser.evaluate(
        "[...document.querySelectorAll('#clip-classes li')].map(row =>"
        " [row.querySelector('.text').textContent, row.querySelector('.tag')?.textContent,"
        " ...[...row.querySelectorAll('.number')].map(e => e.textContent)])"
    )
    likely = sorted(evaluation.classes, key=lambda name: -float(f"{reason.probabilities[name]:.3g}"))
    assert [row[0] for row in rows] == likely
    assert [row[0] for row in rows if row[1] == "predicted"] == [reason.label]
    for name, _, distance, probability in rows:
        assert float(distance) == pytest.approx(reason.distances[name], rel=1e-2)
        assert float(probability[:-2]) == pytest.approx(100 * reason.probabilities[name], abs=0.1)
    widths = browser.evaluate(
        "[...document.querySelectorAll('#clip-classes .stack:not(.whole) i')]"
        ".map(e => e.getBoundingClientRect().width)"
    )
    room = browser.evaluate("document.querySelector('#clip-classes .stack').clientWidth")
    largest = max(reason.distances.values())
    assert widths == pytest.approx([part / largest * room for part in reason.parts.values()], abs=2)
    assert browser.evaluate("document.getElementById('clip-method').options.length") == 1
    browser.evaluate("document.getElementById('clip-before').click()")
    assert chosen(browser) == before


def test_the_largest_score_decides(browser, evaluation, tmp_path):
    """The first class of the list is the predicted one, though another is nearer."""
    main = evaluation.methods[evaluation.main]
    code = evaluation.classes.index
    found = tuple(
        dataclasses.replace(
            one,
            distances={name: 1.0 + (name == one.label) for name in evaluation.classes},
            scores={name: -0.1 * ((code(name) - code(one.label)) % 4) for name in evaluation.classes},
        )
        for one in main.explanations
    )
    methods = list(evaluation.methods)
    methods[evaluation.main] = dataclasses.replace(main, make_explanations=lambda: found)
    path = tmp_path / "scores.html"
    path.write_text(report.page(changed(evaluation, methods=tuple(methods)), make_pictures(evaluation)))
    browser.open(path)
    rows = browser.evaluate(
        "[...document.querySelectorAll('#clip-classes li')].map(row =>"
        " [row.querySelector('.tag')?.textContent ?? '', row.querySelector('.number').textContent])"
    )
    assert rows == [["predicted", "0.000"], ["", "-0.100"], ["", "-0.200"], ["", "-0.300"]]
    assert "largest score" in browser.evaluate("document.getElementById('clip-decision').textContent")


def test_the_map_by_keyboard(browser, file):
    browser.open(file)
    browser.evaluate("document.querySelector('g.clip[tabindex=\"0\"]').focus()")
    visited = {chosen(browser)}
    for key in ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"] * 3:
        browser.press(key)
        now = chosen(browser)
        assert browser.evaluate("document.activeElement.getAttribute('aria-label')").startswith(f"{now}, ")
        visited.add(now)
    assert len(visited) > 3
    assert browser.evaluate("document.querySelectorAll('g.clip[tabindex=\"0\"]').length") == 1
    assert not browser.evaluate("document.querySelector('.card').hidden")
    browser.press("Escape")
    assert browser.evaluate("document.querySelector('.card').hidden")


def test_the_map_by_mouse(browser, file, evaluation):
    browser.open(file, motion="reduce")
    wrong = [v != c.label for v, c in zip(evaluation.methods[1].predictions, evaluation.clips, strict=True)]
    assert browser.evaluate("document.querySelectorAll('g.clip .ring').length") == sum(wrong)
    name = browser.evaluate("document.querySelector('g.clip:last-of-type').getAttribute('aria-label')")
    before = chosen(browser)
    x, y = centre(browser, "g.clip:last-of-type")
    browser.point(x, y)
    card = "document.querySelector('.card')"
    assert not browser.evaluate(f"{card}.hidden")
    assert browser.evaluate(f"{card}.querySelector('img').naturalWidth") > 0
    assert browser.evaluate(f"{card}.querySelector('strong').textContent") == name.split(",")[0]
    assert chosen(browser) == before
    browser.point(x, y, click=True)
    assert chosen(browser) == name.split(",")[0]
    browser.point(2, 2)
    assert browser.evaluate(f"{card}.hidden")
    browser.evaluate("document.getElementById('map-in').click()")
    middle = centre(browser, "#map-box svg")
    assert centre(browser, "g.clip:last-of-type .mark") == pytest.approx(middle, abs=3)


def test_the_map_by_finger(browser, file):
    browser.open(file, width=360, motion="reduce")
    name = browser.evaluate("document.querySelector('g.clip:last-of-type').getAttribute('aria-label')")
    browser.tap(*centre(browser, "g.clip:last-of-type"))
    assert chosen(browser) == name.split(",")[0]
    assert browser.evaluate("document.querySelector('.card strong').textContent") == name.split(",")[0]
    assert not browser.evaluate("document.querySelector('.card').hidden")


def test_the_legend_hides_classes(browser, file, evaluation):
    browser.open(file)
    shown = "[...document.querySelectorAll('g.clip')].filter(e => e.getBoundingClientRect().width).length"
    of_first = sum(clip.label == evaluation.classes[0] for clip in evaluation.clips)
    key = "document.querySelector('#map-legend button')"
    browser.evaluate(f"{key}.click()")
    assert browser.evaluate(shown) == len(evaluation.clips) - of_first
    assert browser.evaluate(f"{key}.getAttribute('aria-pressed')") == "false"
    browser.evaluate("document.getElementById('map-none').click()")
    assert browser.evaluate(shown) == 0
    browser.evaluate("document.getElementById('map-all').click()")
    assert browser.evaluate(shown) == len(evaluation.clips)
    browser.evaluate("document.getElementById('map-wrong').click()")
    assert browser.evaluate(shown) == browser.evaluate("document.querySelectorAll('g.clip .ring').length")


def test_the_matrix(browser, file, evaluation):
    browser.open(file)
    counts = evaluation.confusion
    cells = (
        "[...document.querySelectorAll('.matrix tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    for row, (name, *texts) in zip(counts, browser.evaluate(cells), strict=True):
        assert name in evaluation.classes
        assert [0 if text == "·" else int(text) for text in texts[:-1]] == row.tolist()
    browser.evaluate("document.querySelector('.matrix tbody button').focus()")
    heading = "document.querySelector('#matrix-cell h3').textContent"
    assert (
        browser.evaluate(heading) == f"{counts[0, 0]} clips of {evaluation.classes[0]} classified correctly"
    )
    places = list(zip(*counts.nonzero(), strict=True))
    for _ in range(3):
        browser.press("ArrowDown")
    below = [row for row, column in places if column == 0][:4]
    row = int(below[-1])
    assert evaluation.classes[row] in browser.evaluate(heading)
    assert browser.evaluate("document.querySelectorAll('#matrix-cell .thumb').length") == counts[row, 0]
    browser.evaluate("document.querySelector('#matrix-cell .thumb').click()")
    assert evaluation.classes[row] in chosen(browser)
    assert browser.evaluate("document.activeElement.id") == "clip-head"


def test_the_worst_pairs_come_first(browser, file, evaluation):
    browser.open(file)
    counts = evaluation.confusion
    confusions = counts + counts.T
    pairs = [
        confusions[i, j] for i, j in itertools.combinations(range(len(confusions)), 2) if confusions[i, j]
    ]
    shown = browser.evaluate(
        "[...document.querySelectorAll('#pairs .count')].map(e => parseInt(e.textContent))"
    )
    assert shown == sorted(pairs, reverse=True)[:8]
    thumbs = "[...document.querySelectorAll('#pairs details')].map(d => d.querySelectorAll('.thumb').length)"
    assert browser.evaluate(thumbs) == shown


@pytest.mark.parametrize("column", [0, 1, 2, 4, 5])
def test_the_table_is_sorted(browser, file, evaluation, column):
    browser.open(file)
    values = """[...document.querySelector('table.methods').tBodies[0].rows].map(
        row => row.cells[COLUMN].dataset.value)""".replace("COLUMN", str(column))
    button = f"document.querySelectorAll('table.methods thead th')[{column}].querySelector('button')"
    convert = str.casefold if column < 2 else float
    for order in ("first", "second"):
        browser.evaluate(f"{button}.click()")
        cells = browser.evaluate(values)
        known = [convert(value) for value in cells if value]
        assert cells[: len(known)] == [value for value in cells if value]  # what has no value comes last
        falling = (column == 2) == (order == "first")
        assert known == sorted(known, reverse=falling)
        assert browser.evaluate(f"{button}.parentElement.ariaSort") == (
            "descending" if falling else "ascending"
        )
    rows = browser.evaluate("[...document.querySelectorAll('tbody.published tr')].length")
    assert rows == len(evaluation.published)


def test_neighbours_of_the_same_source_are_marked(browser, file, evaluation):
    browser.open(file)
    marked = (
        "[...document.querySelectorAll('#clip-neighbours li')].map(e => e.querySelector('.tag')?.textContent)"
    )
    note = "document.getElementById('clip-neighbours-note').textContent"
    count = 0
    for _ in evaluation.clips:
        browser.evaluate("document.getElementById('clip-after').click()")
        clip = int(browser.evaluate("document.getElementById('clip-choice').value"))
        source = evaluation.clips[clip].source
        same = [evaluation.clips[k].source == source for k in evaluation.details.relations.neighbours[clip]]
        assert browser.evaluate(marked) == ["same source" if value else None for value in same]
        assert ("same source" in browser.evaluate(note)) == any(same)
        count += sum(same)
    assert 0 < count < evaluation.details.relations.neighbours.size


def test_no_neighbour_is_marked_where_sources_are_unknown(browser, evaluation, tmp_path):
    clips = tuple(dataclasses.replace(clip, source=None) for clip in evaluation.clips)
    path = tmp_path / "unknown.html"
    page = report.page(changed(evaluation, clips=clips), make_pictures(evaluation))
    path.write_text(page, encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.querySelectorAll('#clip-neighbours li').length") == 4
    assert browser.evaluate("document.querySelectorAll('#clip-neighbours .tag').length") == 0


@pytest.mark.parametrize("width", [360, 1280])
def test_long_class_names_fit(browser, tmp_path, width):
    names = ("a" * 60, "a class name of sixty characters " + "b" * 27, "flags", "sea")
    assert {len(name) for name in names[:2]} == {60}
    evaluation = make_evaluation(names=names)
    path = tmp_path / "long.html"
    path.write_text(report.page(evaluation, make_pictures(evaluation)), encoding="utf-8")
    browser.open(path, width=width)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    browser.settle()
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # Every name of the matrix stays in its cell, and no cell covers another one.
    outside = """[...document.querySelectorAll('.matrix :is(.upright, .label, .text)')].filter(e => {
        const [name, cell] = [e, e.closest('th')].map(x => x.getBoundingClientRect());
        return name.left < cell.left - 1 || name.right > cell.right + 1
            || name.top < cell.top - 1 || name.bottom > cell.bottom + 1; }).length"""
    assert browser.evaluate(outside) == 0
    sizes = """[...document.querySelectorAll('.matrix thead th, .matrix tbody th')].map(e => {
        const box = e.getBoundingClientRect(); return [box.width, box.height]; })"""
    columns, rows = browser.evaluate(sizes)[:4], browser.evaluate(sizes)[5:]  # between them: the accuracies
    assert max(size[0] for size in columns) < 48
    assert max(size[1] for size in columns) < 200
    assert max(size[0] for size in rows) < min(220, 0.5 * width)
    assert len({size[1] for size in rows}) == 1
    cut = "[...document.querySelectorAll('.matrix SELECTOR')].map(e => [e.title, e.textContent])"
    titles = browser.evaluate(cut.replace("SELECTOR", "tbody .label"))
    assert titles == [[name, name] for name in evaluation.classes]
    assert browser.evaluate(cut.replace("SELECTOR", ".upright[title]")) == titles
    # The other panels show the whole name in their width.
    wide = """[...document.querySelectorAll('#map-legend button, #clip .label, #pairs .label, #atlas h3, h4')]
        .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline').length"""
    assert browser.evaluate(wide) == 0


def test_every_control_is_reached_by_the_tab_key(browser, file):
    browser.open(file)
    expected = browser.evaluate(
        """[...document.querySelectorAll('a, button, select, input, summary, [tabindex="0"]')]
        .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()).length"""
    )
    browser.evaluate("window.reached = new Set(); window.unseen = []")
    note = """(() => { const e = document.activeElement; const style = getComputedStyle(e);
        const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
        if (e !== document.body && !seen && !e.matches('g')) unseen.push(e.outerHTML.slice(0, 80));
        reached.add(e); reached.delete(document.body); return reached.size; })()"""
    for _ in range(expected + 5):
        browser.press("Tab")
        if browser.evaluate(note) == expected:
            break
    assert browser.evaluate("reached.size") == expected
    assert browser.evaluate("unseen") == []


def test_controls_have_names(browser, file):
    browser.open(file)
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "combobox", "checkbox", "image", "region"}
    nodes = [node for node in tree if not node["ignored"] and node.get("role", {}).get("value") in roles]
    assert {node["role"]["value"] for node in nodes} >= roles - {"combobox"}
    assert [node for node in nodes if not node.get("name", {}).get("value")] == []


def test_without_scripts(browser, file):
    browser.open(file, scripts=False)
    # The page runs nothing, but the browser can still be asked for what is laid out.
    document = browser.call("DOM.getDocument")["root"]["nodeId"]

    def height(selector):
        node = browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        try:
            return browser.call("DOM.getBoxModel", nodeId=node)["model"]["height"]
        except RuntimeError:
            return 0

    assert height(".tile.first") > 0
    assert height("table.methods") > 0
    assert height(".notice") > 0
    assert height("#map") == 0


def test_evil_names_stay_names(browser, evaluation, tmp_path):
    evil = with_evil_names(evaluation)
    path = tmp_path / "evil.html"
    path.write_text(report.page(evil, make_pictures(evil)), encoding="utf-8")
    browser.open(path, width=360)
    assert browser.evaluate("document.scripts.length") == 2
    assert browser.evaluate("document.querySelector('h1').textContent") == EVIL[0]
    assert browser.evaluate("document.querySelectorAll('[onerror]').length") == 0
    assert chosen(browser) in [clip.name for clip in evil.clips]
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
