/* Figures, each with buttons that save it as SVG and PDF. Line charts and heat maps are drawn from data. */

/* A figure element: title, content, buttons. `draw` gets the width and returns the content. Call `redraw` when the figure is on
   the page; it is called again when the width changes. */
function figure(title, unit, draw) {
  const body = make("div", { class: "drawing" });
  const element = make("figure", {},
    make("figcaption", {}, make("h3", {}, title, " ", make("small", {}, unit)), saveButtons(title, () => picture(body.querySelector("svg"), title, unit))),
    body);
  let width;
  element.redraw = () => {
    width = body.clientWidth;
    body.replaceChildren(draw(width));
  };
  new ResizeObserver(() => requestAnimationFrame(() => { if (body.clientWidth !== width) element.redraw(); })).observe(element);
  return element;
}

function saveButtons(title, draw) {
  const button = (kind, save) => make("button", { type: "button", class: "save", "aria-label": `Save “${title}” as ${kind}`, onclick: () => save(draw(), title) }, kind);
  return make("span", { class: "saves" }, button("SVG", saveSvg), button("PDF", savePdf));
}

/* A copy of an SVG with its computed colours and fonts, in the light theme and under its title. */
function picture(svg, title, unit) {
  const root = document.documentElement, theme = root.dataset.theme;
  root.dataset.theme = "light";
  const copy = svg.cloneNode(true), originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size", "text-anchor", "opacity"])
      copies[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "style"]) copies[i].removeAttribute(name);
  });
  if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  copy.querySelector("[data-cursor]")?.remove();
  const heading = make("svg:text", { x: 8, y: -12, "font-family": "sans-serif", "font-size": 14, "font-weight": 600 }, unit ? `${title}, ${unit}` : title);
  svg.append(heading);   // to measure it
  const width = Math.max(+svg.getAttribute("width"), Math.ceil(heading.getComputedTextLength()) + 16), height = +svg.getAttribute("height"), head = 30;
  const attributes = { xmlns: SVG, width, height: height + head, viewBox: `0 ${-head} ${width} ${height + head}` };
  for (const [name, value] of Object.entries(attributes)) copy.setAttribute(name, value);
  copy.prepend(make("svg:rect", { y: -head, width, height: height + head, fill: "#fff" }), heading);
  return copy;
}

const fileName = title => title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
function saveSvg(svg, title) {
  const url = URL.createObjectURL(new Blob([svg.outerHTML], { type: "image/svg+xml" }));
  make("a", { href: url, download: `${fileName(title)}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* Print nothing but the figure, on a page of its size. The shadow keeps the styles of the page out. */
function savePdf(svg, title) {
  const host = make("div"), name = document.title, size = ["width", "height"].map(side => `${Math.ceil(svg.getAttribute(side)) + 1}px`);
  host.attachShadow({ mode: "open" }).append(svg);
  svg.style.display = "block";
  host.append(make("style", {}, `@page { size: ${size.join(" ")}; margin: 0 } @media print { body > :not([data-printed]) { display: none } }`));
  host.dataset.printed = "";
  document.body.append(host);
  document.title = fileName(title);
  addEventListener("afterprint", () => { host.remove(); document.title = name; }, { once: true });
  print();
}

/* The lines of a text as the page breaks them: the letters of each, and the box of its first letter. */
function linesOf(node) {
  const lines = [];
  for (const { 0: letter, index } of node.data.trimEnd().matchAll(/.\p{M}*/gsu)) {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + letter.length);
    const box = range.getBoundingClientRect();
    if (lines.length && box.top < lines.at(-1).box.bottom - 2) lines.at(-1).text += letter;
    else if (letter.trim()) lines.push({ text: letter, box });
  }
  return lines;
}

/* The picture of a dot plot, whose rows are HTML, with the names of its colours below it. */
function plotPicture(plot, title) {
  const margin = 12, box = plot.getBoundingClientRect(), { top, height } = box, left = box.left - margin;
  const names = plot.querySelector("[class^=side-]") ? [...plot.closest("section").querySelectorAll(".legend li")] : [];
  const svg = make("svg:svg", { width: box.width + 2 * margin, height: height + 22 * names.length });
  for (const track of plot.querySelectorAll(".track")) {
    const copy = track.cloneNode(true), box = track.getBoundingClientRect();
    for (const [name, value] of Object.entries({ x: box.left - left, y: box.top - top, width: box.width, height: box.height, overflow: "visible" })) copy.setAttribute(name, value);
    copy.removeAttribute("class");
    svg.append(copy);
  }
  for (const element of plot.querySelectorAll(".label, .label small, .values span")) {
    const style = `fill: var(--${element.matches("small, .component") ? "soft" : "ink"}); font-size: ${getComputedStyle(element).fontSize}`;
    for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE)
      for (const { text, box } of linesOf(node)) svg.append(make("svg:text", { x: box.left - left, y: box.bottom - .24 * box.height - top, style }, text));
  }
  names.forEach((item, i) => svg.append(make("svg:g", { class: item.className }, make("svg:circle", { cx: margin + 6, cy: height + 22 * i + 11, r: 4.5 }),
    make("svg:text", { x: margin + 18, y: height + 22 * i + 15 }, item.textContent))));
  plot.append(svg);   // for its styles
  const copy = picture(svg, title);
  svg.remove();
  return copy;
}

/* Give buttons to the figures that the page has from the start. */
function addSaveButtons() {
  for (const plot of document.querySelectorAll(".plot")) {
    const title = plot.getAttribute("aria-label");
    plot.before(saveButtons(title, () => plotPicture(plot, title)));
  }
  for (const map of document.querySelectorAll("svg.map")) {
    const title = map.getAttribute("aria-label");
    map.closest(".scroll").after(saveButtons(title, () => picture(map, title)));
  }
}

/* At most `most` round numbers within the range. */
function roundTicks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(each => (high - low) / each <= most);
  return Array.from({ length: Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step);
}
function logTicks(low, high, most) {
  const powers = Array.from({ length: Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1 }, (_, i) => 10 ** (Math.floor(Math.log10(low)) + i));
  const [few, many] = [[1], [1, 2, 5]].map(factors => powers.flatMap(power => factors.map(factor => factor * power)).filter(tick => tick >= low * .999 && tick <= high * 1.001));
  return many.length > most ? few : many;
}
/* The axis whose round ticks enclose all values: {low, high, log, ticks}. */
function enclosing(low, high, most, log = false) {
  const exponents = log ? [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))] : [];
  const powers = log ? Array.from({ length: exponents[1] - exponents[0] + 1 }, (_, i) => 10 ** (exponents[0] + i)) : [];
  const unit = 10 ** Math.floor(Math.log10((high - low) / most || 1));
  const grids = log ? [[1, 2, 5], [1]].map(factors => powers.flatMap(power => factors.map(factor => factor * power)))
    : [1, 2, 5, 10, 20].map(factor => {
      const step = factor * unit, first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
      return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
    });
  const kept = grids.map(grid => grid.filter((tick, i) => !(grid[i + 1] <= low * 1.001) && !(grid[i - 1] >= high * .999)));
  const ticks = (log ? kept : grids).find(each => each.length <= most + 1) ?? grids.at(-1);
  return { low: ticks[0], high: ticks.at(-1), log, ticks };
}
const short = value => {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  return size && size < 1e-3 ? `${+value.toPrecision(2)}`.replace("e-", "e−") : `${+value.toPrecision(4)}`;
};

/* The axes of a chart of `width` pixels. `x` and `y`: {low, high, log, ticks, format, name}; `ticks` and `format` have defaults.
   Returns the SVG and the functions from values to positions. */
function axes(width, height, x, y, right = 26) {
  const left = 52, top = 10, bottom = 36;
  const scale = ({ low, high, log }, start, end) => value =>
    start + (log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low)) * (end - start);
  const along = scale(x, left, width - right), up = scale(y, height - bottom, top);
  const svg = make("svg:svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const ticks = ({ low, high, log }, most) => log ? logTicks(low, high, most + 2) : roundTicks(low, high, most);
  for (const tick of y.ticks ?? ticks(y, 5)) svg.append(
    make("svg:line", { class: "grid", x1: left, x2: width - right, y1: up(tick), y2: up(tick) }),
    make("svg:text", { class: "tick end", x: left - 7, y: up(tick) + 4 }, short(tick)));
  for (const tick of x.ticks ?? ticks(x, Math.max(2, Math.floor((width - left - right) / 80))))
    svg.append(make("svg:text", { class: "tick middle", x: along(tick), y: height - bottom + 17 }, (x.format ?? short)(tick)));
  svg.append(make("svg:text", { class: "tick middle", x: (left + width - right) / 2, y: height - 4 }, x.name ?? ""));
  return { svg, along, up, left, right: width - right, top, bottom: height - bottom };
}
const pathOf = points => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/* A line chart. `curves`: {name, side, x, y} with increasing x. The pointer or the arrow keys move a cursor that shows values.
   `x`: {name, format}. `wide`: a logarithmic axis if the largest value is 20 times the smallest. `reference`: x of a dashed line. */
function lineChart({ title, curves, x, wide, reference, height = 210 }) {
  return width => {
    const xs = curves.flatMap(curve => curve.x), ys = curves.flatMap(curve => curve.y).filter(value => !wide || value > 0);
    let [x0, x1] = [Math.min(0, ...xs), Math.max(...xs)], [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    const log = wide && y1 > 20 * y0;
    if (x0 === x1) x1 = x0 + 1;
    const margin = y1 > y0 ? (y1 - y0) * .05 : Math.abs(y0) * .1 || 1;
    if (!log) [y0, y1] = [y0 >= 0 && y0 < .35 * y1 ? 0 : y0 - margin, y1 + margin];
    const { svg, along, up, left, right, top, bottom } =
      axes(width, height, { ...x, low: x0, high: x1 }, { low: y0, high: y1, log }, Math.min(width * .3, 26 + 6.6 * Math.max(...curves.map(curve => curve.name.length))));
    svg.setAttribute("tabindex", 0);
    if (reference > x0 && reference <= x1) svg.append(make("svg:line", { class: "reference", x1: along(reference), x2: along(reference), y1: top, y2: bottom }));
    const ends = [];
    for (const curve of curves) {
      const points = curve.x.map((value, i) => [along(value), up(curve.y[i])]);
      const group = make("svg:g", { class: `side-${curve.side}` });
      group.append(make("svg:path", { class: "curve", d: pathOf(points) }));
      if (points.length <= 40) group.append(...points.map(([px, py]) => make("svg:circle", { class: "dot", cx: px.toFixed(1), cy: py.toFixed(1), r: 2.6 })));
      if (curve.name) ends.push({ group, name: curve.name, y: points.at(-1)[1] });
      svg.append(group);
    }
    // Names at the ends of the lines, one above the other.
    ends.sort((a, b) => b.y - a.y).forEach((end, i) => {
      end.y = Math.min(end.y, i ? ends[i - 1].y - 14 : bottom - 4);
      end.group.append(make("svg:text", { class: "own", x: right + 5, y: end.y + 4 }, end.name));
    });
    const cursor = make("svg:g", { "data-cursor": "" });
    svg.append(cursor);
    const all = [...new Set(xs)].sort((a, b) => a - b);
    const nearest = (values, value) => values.reduce((best, each, i) => Math.abs(each - value) < Math.abs(values[best] - value) ? i : best, 0);
    const known = at => curves.filter(curve => curve.x[0] <= at);
    const describe = at => known(at).map(curve => `${curve.name} ${short(curve.y[nearest(curve.x, at)])}`.trim()).join(", ");
    svg.setAttribute("aria-label", `${title}: ${describe(x1)} at ${x.name} ${x.format(x1)}`);
    let index = all.length - 1;
    const show = to => {
      index = Math.max(0, Math.min(to, all.length - 1));
      const at = all[index], text = `${x.format(at)}: ${describe(at)}`;
      const label = make("svg:text", { class: along(at) > width / 2 ? "end" : "start", x: along(at) + (along(at) > width / 2 ? -6 : 6), y: top + 4 }, text);
      cursor.replaceChildren(make("svg:line", { class: "cursor", x1: along(at), x2: along(at), y1: top, y2: bottom }),
        ...known(at).map(curve => [curve, nearest(curve.x, at)]).map(([curve, i]) =>
          make("svg:circle", { class: `side-${curve.side} dot`, cx: along(curve.x[i]), cy: up(curve.y[i]), r: 4 })), label);
      svg.setAttribute("aria-label", `${title} at ${x.name} ${text}`);
    };
    svg.addEventListener("pointermove", event => show(nearest(all, x0 + (event.clientX - svg.getBoundingClientRect().left - left) / (right - left) * (x1 - x0))));
    svg.addEventListener("pointerleave", () => cursor.replaceChildren());
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(index); });
    svg.addEventListener("blur", () => cursor.replaceChildren());
    svg.addEventListener("keydown", event => {
      const to = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: all.length - 1, PageUp: index - 10, PageDown: index + 10 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
    return svg;
  };
}

/* A heat map of `weights`, bytes in the order of rows and columns. The cells [row, column] of `gold` are outlined. */
const CELL = 20;
function heatMap({ rows, columns, weights, name, gold = [] }) {
  const context = make("canvas").getContext("2d");
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const longest = labels => Math.max(0, ...labels.map(label => context.measureText(label).width)) + 12;
  const left = longest(rows), top = longest(columns), width = left + CELL * columns.length + 6, height = top + CELL * rows.length + 4;
  const svg = make("svg:svg", { class: "map side-0", width, height, role: "img", "aria-label": name });
  columns.forEach((label, k) => svg.append(make("svg:text", { transform: `translate(${left + (k + .5) * CELL + 4} ${top - 6}) rotate(-90)` }, label)));
  rows.forEach((label, q) => svg.append(make("svg:text", { class: "end", x: left - 6, y: top + (q + .5) * CELL + 4 }, label)));
  svg.append(make("svg:rect", { class: "frame", x: left, y: top, width: CELL * columns.length, height: CELL * rows.length }));
  weights.forEach((weight, i) => {
    if (weight < 3) return;
    const [q, k] = [Math.floor(i / columns.length), i % columns.length];
    svg.append(make("svg:rect", { x: left + k * CELL + .5, y: top + q * CELL + .5, width: CELL - 1, height: CELL - 1, "fill-opacity": Math.sqrt(weight / 255).toFixed(2) },
      make("svg:title", {}, `${rows[q]} → ${columns[k]}: ${Math.round(weight / 2.55)} %`)));
  });
  for (const [q, k] of gold) svg.append(make("svg:rect", { class: "gold", x: left + k * CELL + 1, y: top + q * CELL + 1, width: CELL - 2, height: CELL - 2 }));
  return svg;
}
