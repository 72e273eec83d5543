/* Attention maps that a reader can point at: the pieces of a sentence pair, the links between them, the maps of all layers
   and heads. Pages set `view` and show a `System` for each model. */
const EXPLAIN = {
  cross: "Each piece of the translation (query) attends to the source (keys) when the model predicts it.",
  encoder_self: "The source, twice. Each piece (query) attends to all pieces (keys).",
  decoder_self: "The decoder's input, from <s> on, twice. Each piece (query) attends to itself and to earlier pieces (keys).",
};
const view = { kind: "cross", sentence: 0, systems: [], titles: {}, note: "", onhighlight: null };

/* The maps of one kind of attention and one sentence pair: weights in the order L H Q K, as bytes in base64 or as numbers.
   Head index H, one beyond the last, is the mean of the heads. */
class Maps {
  constructor({ shape, weights, rows, columns, best }) {
    [this.L, this.H, this.Q, this.K] = shape;
    this.weights = typeof weights === "string" ? Float32Array.from(atob(weights), c => c.charCodeAt(0) / 255) : weights;
    Object.assign(this, { rows, columns, best });
    this.means = new Map();
  }
  head(layer, head) {
    const size = this.Q * this.K, start = (layer * this.H + head) * size;
    return this.weights.subarray(start, start + size);
  }
  headOrMean(layer, head) {
    if (head < this.H) return this.head(layer, head);
    if (!this.means.has(layer)) {
      const mean = new Float32Array(this.Q * this.K);
      for (let h = 0; h < this.H; h++) this.head(layer, h).forEach((w, i) => { mean[i] += w / this.H; });
      this.means.set(layer, mean);
    }
    return this.means.get(layer);
  }
}

/* The colour is proportional to the square root of the weight, so that small weights are visible. Behind a word it ends
   at 45 %, so that the word stays readable. */
const heat = (weight, most = 100) => `${(most * Math.sqrt(weight)).toFixed(1)}%`;
const BEHIND_WORDS = 45, SHADES = 10, SMALLEST_FONT = .68;
const isAmong = (index, at) => index >= at.index && index < at.index + at.count;
const isRightToLeft = element => getComputedStyle(element).direction === "rtl";
/* Text whose direction does not change that of the text around it. */
const isolate = text => `\u2068${text}\u2069`;
const percent = weight => `${Math.round(100 * weight)} %`;

/* A piece of a tokenizer, as maps label it. */
const SPECIAL = new Set(["<s>", "</s>", "<unk>", "<pad>"]);
const pieceOf = piece => {
  const special = SPECIAL.has(piece), text = piece.replace(/^▁/, "") || "▁", opens = special || piece.startsWith("▁");
  return { text, opens, special, label: !opens && /^[\p{L}\p{N}]/u.test(text) ? `·${text}` : text };
};

class System {
  constructor(system, number) {
    this.number = number;
    this.name = system.name;
    this.pairs = system.pairs;
    this.parsed = new Map();
    this.heads = system.heads ?? {};   // chosen [layer, head] by kind
    this.hovered = this.pinned = null;   // {side: "rows" | "columns", index, count}: pieces one after the other
    this.body = make("div");
    this.target = make("p", { class: "target", dir: "auto" });
    this.element = make("section", { class: `system side-${number % 6}`, "aria-label": system.name },
      make("h2", {}, system.name, system.family === system.name ? "" : make("span", {}, ` · ${system.family}`)),
      system.path ? make("details", { class: "where" }, make("summary", {}, "folder"), make("code", {}, system.path)) : "",
      this.target, this.body);
    // In the next frame, because an observer must not resize the observed element.
    new ResizeObserver(() => requestAnimationFrame(() => { if (this.maps) { this.fit(); this.drawLinks(); } })).observe(this.element);
  }

  show() {
    const pair = this.pairs[view.sentence], key = `${view.sentence} ${view.kind}`;
    this.target.replaceChildren(pair.target || "—", make("small", {}, view.note));
    if (!this.parsed.has(key) && pair.maps[view.kind]) this.parsed.set(key, new Maps(pair.maps[view.kind]));
    this.maps = this.parsed.get(key);
    this.hovered = this.pinned = null;
    if (!this.maps) {
      this.body.replaceChildren(make("p", { class: "none" }, `This model has no ${view.titles[view.kind].toLowerCase()}.`));
      return;
    }
    const [layer, head] = this.heads[view.kind] ?? [Infinity];
    if (!(layer < this.maps.L && head <= this.maps.H)) this.heads[view.kind] = this.maps.best;
    this.layOut();
    this.fit();
    this.choose(...this.heads[view.kind]);
  }

  layOut() {
    const same = view.kind !== "cross";
    this.links = make("svg:svg", { class: "links", "aria-hidden": "true" });
    this.words = { columns: this.tokens("columns"), rows: this.tokens("rows") };
    const row = (side, name) => make("div", { class: `words ${name}`, role: "toolbar", dir: "auto", "aria-label":
      side === "columns" ? "keys" : "queries" }, ...this.spans(side));
    this.chart = make("div");
    this.chartTitle = make("h3");
    this.status = make("p", { class: "status", role: "status" });
    this.stage = make("div", { class: "stage" }, this.links,
      make("div", { class: "who" }, same ? "keys" : "source (keys)"), row("columns", "keys"),
      row("rows", "queries"), make("div", { class: "who" }, same ? "queries" : "translation (queries)"));
    this.body.replaceChildren(this.stage, this.status,
      make("div", { class: "below" },
        make("div", {}, make("h3", {}, "Layers and heads"), scroll(`Layers and heads of ${this.name}`, this.matrix())),
        make("div", {}, this.chartTitle, scroll(`Heat map of ${this.name}`, this.chart), this.scale())));
  }

  tokens(side) {
    return this.maps[side].map((piece, index) => make("button", {
      type: "button", tabindex: index ? -1 : 0,
      class: piece.special ? "word special" : piece.label.startsWith("·") ? "word inner" : "word",
      onmouseenter: () => this.hover(side, index), onmouseleave: () => this.hover(null),
      onfocus: () => this.hover(side, index), onblur: () => this.hover(null),
      onclick: () => this.pin(side, index), onkeydown: event => this.onKey(event, side, index),
    }, piece.text));
  }

  /* The pieces of a word stay on one line. */
  spans(side) {
    const spans = [];
    this.maps[side].forEach((piece, index) => {
      if (piece.opens || !index) spans.push(make("span"));
      spans.at(-1).append(this.words[side][index]);
    });
    return spans;
  }

  /* Keep both sides on one line each, with a smaller font if needed; else put each piece on a line of its own. */
  fit() {
    this.stage.classList.remove("upright");
    this.body.style.setProperty("--fit", 1);
    const widths = [...this.stage.querySelectorAll(".words")].map(words => {
      const [first, last] = [words.firstChild, words.lastChild].map(word => word.getBoundingClientRect());
      return Math.max(first.right, last.right) - Math.min(first.left, last.left);
    });
    const fit = this.stage.clientWidth / Math.max(...widths);
    this.stage.classList.toggle("upright", fit < SMALLEST_FONT);
    this.body.style.setProperty("--fit", Math.min(1, fit - .005));
  }

  onKey(event, side, index) {
    const there = (s, i) => this.words[s][Math.max(0, Math.min(i, this.words[s].length - 1))];
    const [back, on, toKeys, toQueries] = this.stage.classList.contains("upright")
      ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"] : isRightToLeft(this.words[side][0])
        ? ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    const goal = { [back]: () => there(side, index - 1), [on]: () => there(side, index + 1),
      Home: () => there(side, 0), End: () => there(side, Infinity),
      [toKeys]: () => side === "rows" && there("columns", index),
      [toQueries]: () => side === "columns" && there("rows", index) }[event.key]?.();
    if (!goal) return;
    event.preventDefault();
    for (const word of this.words[this.words.rows.includes(goal) ? "rows" : "columns"]) word.tabIndex = -1;
    goal.tabIndex = 0;
    goal.focus();
  }

  matrix() {
    const { L, H, Q, K } = this.maps, several = H > 1;
    const grid = make("div", { class: "heads", role: "radiogroup", "aria-label": "Layer and head",
      style: `grid-template-columns: auto repeat(${H + several}, max-content)` });
    grid.append(make("span"));
    for (let h = 0; h < H + several; h++) grid.append(make("span", {}, h < H ? `head ${h + 1}` : "mean"));
    for (let l = 0; l < L; l++) {
      grid.append(make("span", {}, `layer ${l + 1}`));
      for (let h = 0; h < H + several; h++) {
        const input = make("input", { type: "radio", class: "visually-hidden", name: `head${this.number}`, value: `${l} ${h}`,
          "aria-label": this.headName(l, h), onchange: () => this.choose(l, h) });
        grid.append(make("label", { title: this.headName(l, h) }, input, this.thumbnail(this.maps.headOrMean(l, h))));
      }
    }
    return this.grid = grid;
  }

  /* One path for each shade, because a page has thousands of cells. */
  thumbnail(weights) {
    const { Q, K } = this.maps, shades = Array.from({ length: SHADES + 1 }, () => "");
    weights.forEach((weight, i) => { shades[Math.round(SHADES * Math.sqrt(weight))] += `M${i % K} ${Math.floor(i / K)}h1v1h-1z`; });
    return make("svg:svg", { viewBox: `0 0 ${K} ${Q}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      ...shades.flatMap((d, shade) => shade && d ? [make("svg:path", { d, "fill-opacity": shade / SHADES })] : []));
  }

  headName(layer, head) { return `layer ${layer + 1}, ${head < this.maps.H ? `head ${head + 1}` : "mean of all heads"}`; }

  choose(layer, head) {
    this.heads[view.kind] = [layer, head];
    this.weights = this.maps.headOrMean(layer, head);
    this.grid.querySelector(`input[value="${layer} ${head}"]`).checked = true;
    this.chartTitle.textContent = this.headName(layer, head).replace(/^l/, "L");
    this.drawChart();
    this.highlight();
  }

  scale() {
    return make("div", { class: "scale" }, ...[0, .1, .25, .5, 1].map(weight => make("span", { style: `left: ${heat(weight)}` }, `${weight}`)));
  }

  /* Pixels for the cells of the heat map. */
  room() { return view.systems.length > 1 ? 400 : 540; }

  drawChart() {
    const { Q, K, rows, columns } = this.maps;
    const cell = Math.max(14, Math.min(30, Math.floor(this.room() / Math.max(Q, K)))), pen = document.createElement("canvas").getContext("2d");
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const longest = pieces => Math.ceil(Math.max(...pieces.map(piece => pen.measureText(piece.label).width)));
    const left = longest(rows) + 10, top = longest(columns) + 10;
    const svg = make("svg:svg", { class: "map", width: left + K * cell + 2, height: top + Q * cell + 2, role: "img",
      "aria-label": `Heat map: ${Q} queries (rows), ${K} keys (columns)` });
    rows.forEach((piece, q) => svg.append(make("svg:text", { x: left - 6, y: top + (q + .5) * cell, "text-anchor": "end", "dominant-baseline": "central" }, piece.label)));
    columns.forEach((piece, k) => svg.append(make("svg:text", { transform: `translate(${left + (k + .5) * cell} ${top - 6}) rotate(-90)`, "dominant-baseline": "central" }, piece.label)));
    for (let q = 0; q < Q; q++) for (let k = 0; k < K; k++) svg.append(make("svg:rect", {
      class: "cell", x: left + k * cell, y: top + q * cell, width: cell - 1, height: cell - 1, rx: 1.5,
      style: `--heat: ${heat(this.weights[q * K + k])}`, "data-q": q, "data-k": k }));
    svg.addEventListener("mouseover", ({ target }) => {
      if (target.dataset.q === undefined) return;
      const q = +target.dataset.q, k = +target.dataset.k;
      this.hover("rows", q);
      this.status.textContent = `${isolate(rows[q].label)} → ${isolate(columns[k].label)}: ${percent(this.weights[q * K + k])}`;
    });
    svg.addEventListener("mouseleave", () => this.hover(null));
    this.frame = { svg, left, top, cell };
    this.chart.replaceChildren(svg);
  }

  hover(side, index, count = 1) { updateSystems(this, system => { system.hovered = side && { side, index, count }; }, side); }

  pin(side, index, count = 1) {
    const again = this.pinned && this.pinned.side === side && this.pinned.index === index && this.pinned.count === count;
    updateSystems(this, system => { system.pinned = again ? null : { side, index, count }; }, side);
  }

  /* The mean weight between the pieces that are pointed at and a piece of the other side; without such pieces, 0. */
  weightTo(at, other) {
    const { K } = this.maps, found = Array.from({ length: at?.count ?? 0 }, (_, i) => at.index + i);
    return found.reduce((sum, i) => sum + this.weights[at.side === "rows" ? i * K + other : other * K + i], 0) / (found.length || 1);
  }

  unpin() { this.pinned = this.hovered = null; if (this.maps) this.highlight(); }

  highlight() {
    const { Q, K } = this.maps, at = this.hovered ?? this.pinned, other = at?.side === "rows" ? "columns" : "rows";
    for (const side of ["rows", "columns"]) this.words[side].forEach((word, index) => {
      const weight = side === other ? this.weightTo(at, index) : 0;
      word.style.setProperty("--heat", heat(weight, BEHIND_WORDS));
      word.classList.toggle("chosen", at?.side === side && isAmong(index, at));
      word.setAttribute("aria-pressed", this.pinned?.side === side && isAmong(index, this.pinned));
      if (weight >= .045) word.dataset.share = Math.round(100 * weight); else delete word.dataset.share;
    });
    this.drawLinks();
    this.frame.svg.querySelector(".band")?.remove();
    if (at) {
      const { svg, left, top, cell } = this.frame, row = at.side === "rows";
      svg.append(make("svg:rect", { class: "band", rx: 2, x: left - 1 + (row ? 0 : at.index * cell), y: top - 1 + (row ? at.index * cell : 0),
        width: (row ? K : at.count) * cell + 1, height: (row ? at.count : Q) * cell + 1 }));
    }
    this.status.textContent = at ? this.describe(at, other) : "";
    view.onhighlight?.(this, at);
  }

  describe(at, other) {
    const name = this.maps[at.side].slice(at.index, at.index + at.count).map(piece => at.count > 1 ? piece.text : piece.label).join("");
    const found = this.maps[other].map((piece, i) => [piece.label, this.weightTo(at, i)])
      .filter(([, weight]) => weight >= .045).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([text, weight]) => `${isolate(text)} ${percent(weight)}`).join(", ");
    if (at.side === "rows") return `“${isolate(name)}” ${found ? `attends to ${found}` : "gives less than 5 % to every piece"}`;
    return `“${isolate(name)}” receives ${found ? `attention from ${found}` : "less than 5 % from every piece"}`;
  }

  drawLinks() {
    const { Q, K } = this.maps, at = this.hovered ?? this.pinned, stage = this.links.getBoundingClientRect();
    const upright = this.stage.classList.contains("upright");
    const place = (words, [edge, middle]) => words.map(word => {
      const box = word.getBoundingClientRect();
      return upright ? [box[edge] - stage.left, box.top + box.height / 2 - stage.top]
        : [box.left + box.width / 2 - stage.left, box[middle] - stage.top];
    });
    const from = place(this.words.rows, ["left", "top"]), to = place(this.words.columns, ["right", "bottom"]), paths = [];
    for (let q = 0; q < Q; q++) for (let k = 0; k < K; k++) {
      const weight = this.weights[q * K + k];
      if (weight < .03 || (at && !isAmong(at.side === "rows" ? q : k, at))) continue;
      const [x1, y1] = from[q], [x2, y2] = to[k], across = upright ? (x2 - x1) * .5 : 0, down = upright ? 0 : (y2 - y1) * .5;
      paths.push(make("svg:path", { d: `M${x1} ${y1} C${x1 + across} ${y1 + down} ${x2 - across} ${y2 - down} ${x2} ${y2}`,
        "stroke-width": (.6 + 5 * weight).toFixed(2), "stroke-opacity": (at ? Math.min(1, .15 + weight ** .6) : .75 * weight ** .8).toFixed(3) }));
    }
    this.links.replaceChildren(...paths);
  }
}

/* Apply a change to the origin, and to all systems that have the same pieces on that side. */
function updateSystems(origin, change, side) {
  const pieces = system => side && JSON.stringify(system.maps[side].map(piece => piece.text));
  for (const system of view.systems) {
    if (!system.maps) continue;
    if (system === origin || !side || pieces(system) === pieces(origin)) { change(system); system.highlight(); }
  }
}

addEventListener("keydown", event => { if (event.key === "Escape") view.systems.forEach(system => system.unpin()); });
