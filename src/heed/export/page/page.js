/* The interface of the page: a sentence, its translation piece by piece, and the attention behind it. The model is in
   model.js, the maps in attention.js. */
const DELAY = 120;       // milliseconds from the last key to the translation
const BEAT = 800;        // milliseconds of a step while playing
const MOST_PIECES = 100; // of a sentence: time grows with the length, maps with its square
const CANDIDATES = 8;
const data = JSON.parse($("data").textContent);
const model = new MODELS[data.config.family](data), source = new Tokenizer(data.source), target = data.target ? new Tokenizer(data.target) : source;
const state = {
  ids: [],       // the source with EOS
  edits: [],     // see model.js
  prefix: [],    // target tokens that the reader has chosen
  found: null,   // the translation with these changes, see compute
  plain: null,   // the translation without changes
  at: 0,         // the step that is shown
};

/* ---- Compute. */
function compute(edits, prefix) {
  const start = performance.now(), memory = model.encode(state.ids, edits);
  const steps = [...greedySteps(model, memory, { limit: lengthLimit(data.limits, state.ids.length), edits, prefix })];
  const tokens = steps.map(step => step.token);
  return { steps, tokens, text: target.decode(tokens), maps: mapsOf(memory, steps), ms: performance.now() - start };
}

const piecesOf = (tokenizer, ids) => ids.map(id => pieceOf(tokenizer.pieces[id]));

/* The maps of all kinds of attention, as attention.js takes them. */
function mapsOf(memory, steps) {
  const keys = piecesOf(source, state.ids), tokens = steps.map(step => step.token);
  const queries = piecesOf(target, tokens), inputs = piecesOf(target, [BOS, ...tokens.slice(0, -1)]);
  const read = {   // rows, columns, and the weights of a layer, head and query
    cross: [queries, keys, (l, h, q) => steps[q].weights.cross[l][h]],
    encoder_self: [keys, keys, (l, h, q) => memory.weights[l][q][h]],
    decoder_self: [inputs, inputs, (l, h, q) => steps[q].weights.decoder_self[l][h]],
  };
  const H = model.num_heads;
  return Object.fromEntries(Object.entries(model.attentionLayers).map(([kind, L]) => {
    const [rows, columns, row] = read[kind], Q = rows.length, K = columns.length, shape = [L, H, Q, K];
    const weights = new Float32Array(L * H * Q * K);
    for (let i = 0; i < L * H * Q; i++)   // of the decoder's self-attention, keys after the query stay 0
      weights.set(row(Math.floor(i / Q / H), Math.floor(i / Q) % H, i % Q), i * K);
    return [kind, { shape, weights, rows, columns, best: mostInformative(weights, shape) }];
  }));
}

/* [layer, head] of the map with the largest mutual information between query and key, all queries equally likely. */
function mostInformative(weights, [L, H, Q, K]) {
  const information = range(L * H).map(i => {
    const map = weights.subarray(i * Q * K, (i + 1) * Q * K), mean = new Float64Array(K);
    map.forEach((w, j) => { mean[j % K] += w / Q; });
    return map.reduce((total, w, j) => total + (w ? w * Math.log(w / mean[j % K]) : 0), 0);
  });
  const best = information.indexOf(Math.max(...information));
  return [Math.floor(best / H), best % H];
}

/* ---- The sentence. */
let timer;
$("text").oninput = () => { clearTimeout(timer); timer = setTimeout(read, DELAY); };
$("text").onkeydown = event => { if (event.key === "Enter") { event.preventDefault(); read(); } };
$("examples").onchange = event => { $("text").value = event.target.value; event.target.value = ""; read(); };

/* Forced rows and chosen pieces belong to a sentence; heads that are off stay off. */
function read() {
  clearTimeout(timer);
  stop();
  const ids = source.encode($("text").value.replace(/\s+/g, " "));
  state.ids = [...ids, EOS];
  state.edits = state.edits.filter(edit => edit.weights === null);
  state.prefix = [];
  explorer.pinned = null;
  const isTooLong = ids.length > MOST_PIECES;
  $("insides").hidden = !ids.length || isTooLong;
  if ($("insides").hidden) {
    Object.assign(state, { found: null, plain: null });
    $("chips").replaceChildren();
    $("step").textContent = "";
    for (const name of ["back", "play", "on"]) $(name).disabled = true;
    $("count").textContent = isTooLong ? `${ids.length} pieces: the page shows up to ${MOST_PIECES}` : "";
    drawChanges();
    return;
  }
  state.plain = compute([], []);
  update();
  const doubts = state.found.steps.map(doubt);
  state.at = doubts.indexOf(Math.max(...doubts));   // the hardest choice
  drawStep();
}

/* How close the second candidate comes to the chosen one. */
const doubt = ({ token, probabilities }) => probabilities.reduce((most, p, id) => id === token ? most : Math.max(most, p), 0) / probabilities[token];

/* Translate with the present changes, and draw everything. */
function update() {
  const focused = explorer.focused(), { pinned } = explorer;
  state.found = state.edits.length || state.prefix.length ? compute(state.edits, state.prefix) : state.plain;
  const { tokens, text, maps, ms } = state.found;
  $("count").textContent = `${state.ids.length + tokens.length} pieces in ${Math.ceil(ms)} ms`;
  state.at = Math.min(state.at, tokens.length - 1);
  explorer.pairs = [{ source: $("text").value, target: text, maps }];
  explorer.parsed.clear();
  drawChips();
  drawChanges();
  showMaps();
  explorer.restore(pinned, focused);
  drawStep();
  $("spoken").textContent = text;
}

/* ---- The translation: a chip for each piece, with its probability as a bar. */
function drawChips() {
  const { steps, tokens } = state.found, before = state.plain.tokens, most = Math.min(tokens.length, before.length);
  const first = tokens.findIndex((token, t) => token !== before[t]);
  let same = 0;   // pieces at the end that both translations share
  while (first >= 0 && same < most - first && tokens.at(-1 - same) === before.at(-1 - same)) same++;
  const words = [];
  piecesOf(target, tokens).forEach((piece, t) => {
    const probability = steps[t].probabilities[tokens[t]], isChanged = first >= 0 && t >= first && t < tokens.length - same;
    if (piece.opens || !t) words.push(make("span"));
    words.at(-1).append(make("button", { class: `chip${piece.special ? " special" : ""}${isChanged ? " changed" : ""}`, type: "button",
      style: `--p: ${probability.toFixed(3)}`, "aria-label": `${piece.special ? "end of sentence" : piece.label}, ${percent(probability)}`,
      onclick: () => select(t), onkeydown: event => onChipKey(event, t) }, piece.special && tokens[t] === EOS ? "end" : piece.text));
  });
  $("chips").replaceChildren(...words);
}

const chips = () => [...document.querySelectorAll(".chip")];

function onChipKey(event, t) {
  const on = isRightToLeft(event.target) ? -1 : 1;
  const goal = { ArrowRight: t + on, ArrowLeft: t - on, Home: 0, End: chips().length - 1 }[event.key];
  if (goal === undefined || !chips()[goal]) return;
  event.preventDefault();
  select(goal);
  chips()[goal].focus();
}

/* Show a step: its candidates, and its row of attention. */
function select(t) {
  state.at = Math.max(0, Math.min(t, state.found.tokens.length - 1));
  if (view.kind !== "encoder_self") { explorer.pinned = { side: "rows", index: state.at, count: 1 }; explorer.highlight(); }
  drawStep();
}

/* ---- The choice of the next piece. */
function drawStep() {
  const { steps, tokens } = state.found, { token, probabilities } = steps[state.at], t = state.at;
  chips().forEach((chip, i) => {
    chip.setAttribute("aria-pressed", i === t);
    chip.tabIndex = i === t ? 0 : -1;
    chip.classList.toggle("later", i > t);
  });
  const before = target.decode(tokens.slice(0, t)), size = target.pieces.length.toLocaleString("en");
  $("choice-text").textContent = `${before ? `After “${isolate(before)}”` : "At the start"}, the decoder gives each of its ${size} pieces (words and parts of words) a probability. It takes the best one.`;
  const order = Array.from(probabilities.keys()).filter(id => id !== PAD && id !== BOS).sort((a, b) => probabilities[b] - probabilities[a]);
  const shown = order.slice(0, CANDIDATES);
  if (!shown.includes(token)) shown[CANDIDATES - 1] = token;   // chosen by the reader
  const rest = 1 - shown.reduce((total, id) => total + probabilities[id], 0);
  $("candidates").replaceChildren(...shown.map(id => {
    const { label } = pieceOf(target.pieces[id]), p = probabilities[id], text = id === EOS ? "end" : label;
    return make("li", {}, make("button", { class: "candidate", type: "button", "aria-pressed": String(id === token), style: `--p: ${p.toFixed(4)}`,
      onclick: () => choosePiece(t, id) }, make("b", { dir: "auto" }, text), make("i"), make("span", {}, share(p))));
  }), make("li", {}, `all others together ${share(Math.max(0, rest))}`));
  $("step").textContent = `step ${t + 1} of ${tokens.length}`;
  $("play").disabled = false;
  $("back").disabled = t === 0;
  $("on").disabled = t === tokens.length - 1;
}

const share = p => p >= .995 && p < .9995 ? `${(100 * p).toFixed(1)} %` : p >= .095 || p === 0 ? percent(p) : p >= .001 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %";

function choosePiece(t, id) {
  const { tokens } = state.found;
  state.prefix = id === tokens[t] ? state.prefix : [...tokens.slice(0, t), id];
  update();
  select(t);
  document.querySelector(".candidate[aria-pressed=true]").focus();
}

$("back").onclick = () => { stop(); select(state.at - 1); };
$("on").onclick = () => { stop(); select(state.at + 1); };
let playing;
$("play").onclick = () => {
  if (playing) { stop(); return; }
  $("chips").classList.add("playing");
  $("play").textContent = "Stop";
  select(0);
  playing = setInterval(() => { if (state.at < state.found.tokens.length - 1) select(state.at + 1); else stop(); }, BEAT);
};
function stop() {
  clearInterval(playing);
  playing = null;
  $("chips").classList.remove("playing");
  $("play").textContent = "Play";
}

/* ---- Changes to the model. */
const scope = () => +document.querySelector("#scope :checked").value;

function force(query, key) {
  const { columns, H } = explorer.maps, [layer, head] = explorer.heads[view.kind];
  if (view.kind === "decoder_self" && key > query) {
    explorer.status.textContent = `“${isolate(columns[query].label)}” cannot look at “${isolate(columns[key].label)}”, which comes later.`;
    return;
  }
  const size = view.kind === "decoder_self" ? query + 1 : columns.length, weights = new Float32Array(size);
  weights[key] = 1;
  const edit = { kind: view.kind, layer: scope() ? layer : null, head: scope() > 1 && head < H ? head : null, query, key, weights };
  const isSame = other => ["kind", "layer", "head", "query"].every(name => other[name] === edit[name]);
  const again = state.edits.some(other => isSame(other) && other.key === key);   // a second click takes it back
  state.edits = state.edits.filter(other => !isSame(other)).concat(again ? [] : edit);
  update();
}

/* head null: all heads of the layer. */
function toggleHeads(layer, head) {
  const heads = head === null ? range(explorer.maps.H) : [head], wasOn = heads.some(h => isOn(layer, h));
  state.edits = state.edits.filter(edit => !(edit.weights === null && edit.kind === view.kind && edit.layer === layer && heads.includes(edit.head)));
  if (wasOn) state.edits.push(...heads.map(h => ({ kind: view.kind, layer, head: h, query: null, weights: null })));
  update();
}

const isOn = (layer, head) => !state.edits.some(edit => edit.weights === null && edit.kind === view.kind && edit.layer === layer && edit.head === head);
const place = ({ layer, head }) => layer === null ? "" : head === null ? `, layer ${layer + 1}` : `, layer ${layer + 1} head ${head + 1}`;

function describeEdit(edit) {
  const kind = view.titles[edit.kind].toLowerCase();
  if (edit.weights === null) return `${kind}${place(edit)} off`;
  const { rows, columns } = state.found.maps[edit.kind];
  return `${isolate(rows[edit.query]?.label ?? "–")} → ${isolate(columns[edit.key].label)} (${kind}${place(edit)})`;
}

function drawChanges() {
  const { edits, prefix, found, plain } = state, remove = (text, action, unused = false) => make("li", {},
    make("button", { type: "button", class: unused ? "unused" : "", title: "Take this change back", onclick: () => { action(); if (state.plain) update(); else drawChanges(); } }, text));
  const changes = edits.map(edit => remove(found ? describeEdit(edit) : `${view.titles[edit.kind].toLowerCase()}${place(edit)} off`,
    () => { state.edits = edits.filter(other => other !== edit); }, found && edit.query >= found.maps[edit.kind].rows.length));
  if (prefix.length) changes.push(remove(`piece ${prefix.length}: ${isolate(pieceOf(target.pieces[prefix.at(-1)]).label)}`, () => { state.prefix = []; }));
  if (changes.length > 1) changes.push(remove("all changes", () => { state.edits = []; state.prefix = []; }));
  $("changes").replaceChildren(...changes);
  $("before").hidden = !found || found.text === plain.text;
  $("unchanged").textContent = plain?.text ?? "";
}

/* ---- Attention: the maps of attention.js, which the reader can change. */
class Explorer extends System {
  pin(side, index) {
    const pinned = this.pinned?.side === "rows" && side === "columns" ? this.pinned.index : null;
    if (pinned !== null) { force(pinned, index); return; }
    super.pin(side, index);
    if (side === "rows" && view.kind !== "encoder_self") { state.at = index; drawStep(); }
  }

  hover(side, index, count) { if (!this.drag?.moved) super.hover(side, index, count); }

  layOut() {
    super.layOut();
    this.stage.onpointerdown = event => {
      const index = this.words.rows.indexOf(event.target);
      if (index >= 0 && event.isPrimary) this.drag = { index, x: event.clientX, y: event.clientY, moved: false };
    };
  }

  /* The line from the query that is dragged to the pointer. */
  dragTo(event) {
    const { drag, stage } = this;
    if (!drag || (!drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 6)) return;
    if (!drag.moved) { this.pinned = { side: "rows", index: drag.index, count: 1 }; this.hovered = null; this.highlight(); }
    drag.moved = true;
    stage.classList.add("dragging");
    const box = stage.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    this.links.querySelector(".rubber")?.remove();
    this.links.append(make("svg:path", { class: "rubber", d: `M${drag.x - box.left} ${drag.y - box.top} L${x} ${y}` }));
    const over = document.elementFromPoint(event.clientX, event.clientY);
    this.words.columns.forEach(word => word.classList.toggle("drop", word === over));
  }

  endDrag() {
    const { drag } = this;
    this.drag = null;
    if (!drag?.moved) return;
    this.stage.classList.remove("dragging");
    const key = this.words.columns.findIndex(word => word.classList.contains("drop"));
    if (key >= 0) force(drag.index, key); else this.highlight();
  }

  /* A switch below each head and each layer. */
  matrix() {
    const grid = super.matrix(), { L, H } = this.maps;
    const button = (layer, head, name, isOn) => make("button", { class: "switch", type: "button", role: "switch", "aria-checked": String(isOn),
      "aria-label": name, "data-switch": `${layer} ${head}`, onclick: () => toggleHeads(layer, head) });
    for (let l = 0; l < L; l++) for (let h = 0; h < H; h++) {
      const label = grid.querySelector(`input[value="${l} ${h}"]`).parentElement, cell = make("div", { class: "head" });
      label.replaceWith(cell);
      cell.append(label, button(l, h, this.headName(l, h), isOn(l, h)));
    }
    if (H > 1) [...grid.children].filter(each => each.textContent.startsWith("layer")).forEach((name, l) =>
      name.append(make("br"), button(l, null, `layer ${l + 1}`, range(H).some(h => isOn(l, h)))));
    return grid;
  }

  room() { return 330; }   // beside the small maps

  drawChart() {
    super.drawChart();
    this.frame.svg.addEventListener("click", ({ target: { dataset } }) => { if (dataset.q !== undefined) force(+dataset.q, +dataset.k); });
  }

  highlight() {
    super.highlight();
    const at = this.pinned?.side === "rows" ? this.pinned.index : null, [layer, head] = this.heads[view.kind], { rows, H } = this.maps;
    this.stage.classList.toggle("pinned", at !== null);
    this.words.rows.forEach((word, q) => word.classList.toggle("forced", state.edits.some(edit => edit.weights && edit.kind === view.kind && edit.query === q
      && (edit.layer ?? layer) === layer && (head === H || (edit.head ?? head) === head))));
    const isCross = view.kind === "cross", name = at !== null && `“${isolate(rows[at].label)}”`;
    const forced = state.edits.findLast(edit => edit.weights && edit.kind === view.kind && edit.query === at);
    $("how").textContent = at === null
      ? `Change it: drag a ${isCross ? "piece of the translation onto a piece of the source" : "query onto a key"}, or click one and then the other. The model must then look only there.`
      : forced ? `${name} must look at “${isolate(this.maps.columns[forced.key].label)}”. Click that piece again to take this back, or another one.`
      : `${name} is chosen. Click a ${isCross ? "piece of the source" : "key"}, and the model must look only there when it ${isCross ? "predicts" : "reads"} ${name}.`;
    drawScope();
  }

  /* Where the keyboard is, as a selector, to return there when everything is drawn again. */
  focused() {
    const word = document.activeElement, { words } = this;
    for (const side of words ? ["rows", "columns"] : []) if (words[side].includes(word)) return () => this.words[side][words[side].indexOf(word)];
    const { switch: name } = word?.dataset ?? {};
    return () => name && this.grid.querySelector(`[data-switch="${name}"]`);
  }

  restore(pinned, focused) {
    if (pinned && pinned.index < this.maps.rows.length) { this.pinned = pinned; this.highlight(); }
    focused()?.focus();
  }
}

/* Which heads a change applies to: all, those of the chosen layer, or the chosen one. */
function drawScope() {
  const [layer, head] = explorer.heads[view.kind], chosen = document.querySelector("#scope :checked")?.value ?? "0";
  $("scope").hidden = explorer.maps.L * explorer.maps.H === 1;
  const names = ["all heads", `layer ${layer + 1}`, ...head < explorer.maps.H ? [`layer ${layer + 1}, head ${head + 1}`] : []];
  const value = Math.min(+chosen, names.length - 1);
  $("scope").replaceChildren($("scope").firstElementChild, ...names.map((name, i) => make("label", {},
    make("input", { type: "radio", name: "scope", value: i, checked: i === value }), name)));
}

function showMaps() {
  $("explain").textContent = EXPLAIN[view.kind];
  explorer.show();
}

const explorer = new Explorer({ name: "this model", family: "this model", pairs: [] }, 0);
addEventListener("pointermove", event => explorer.dragTo(event));
addEventListener("pointerup", () => explorer.endDrag());
addEventListener("pointercancel", () => explorer.endDrag());

/* ---- Start. */
function start() {
  Object.assign(view, { titles: data.titles, systems: [explorer] });
  $("systems").append(explorer.element);
  const kinds = Object.keys(model.attentionLayers);
  $("kinds").hidden = kinds.length < 2;
  $("kinds").append(...kinds.map(kind => make("label", {}, make("input", { type: "radio", name: "kind", value: kind,
    class: "visually-hidden", checked: kind === view.kind, onchange: () => { view.kind = kind; showMaps(); if (kind !== "encoder_self") select(state.at); } }), data.titles[kind])));
  const { cross, encoder_self: encoder } = model.attentionLayers, count = data.tensors.reduce((total, [, shape]) => total + shape.reduce((a, b) => a * b), 0);
  const name = encoder ? `a transformer with ${encoder} + ${cross} layers of ${model.num_heads} heads and` : "a recurrent network with attention and";
  $("facts").textContent = `${data.languages.join(" → ")}: ${name} ${(count / 1e6).toFixed(1)} million weights. It runs here, in your browser.`;
  $("examples").append(...data.examples.map(text => make("option", { value: text }, text)));
  $("examples").hidden = !data.examples.length;
  $("text").value = data.examples[0] ?? "";
  setTheme();
  read();
}
start();
