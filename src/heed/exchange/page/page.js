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

/* [layer, head] of the map that says most about the sentence, as heed chooses it: the mutual information of query and key, and
   the longest distance, in parts of the sentence, between queries that attend to the same key. Queries are equally likely. */
function mostInformative(weights, [L, H, Q, K]) {
  const information = range(L * H).map(i => {
    const map = weights.subarray(i * Q * K, (i + 1) * Q * K), mean = new Float64Array(K);
    map.forEach((w, j) => { mean[j % K] += w / Q; });
    const shared = (q, r) => range(K).reduce((total, k) => total + map[q * K + k] * map[r * K + k], 0);
    const longest = Math.max(...range(Q).flatMap(q => range(q + 1).map(r => shared(q, r) * (q - r) / Q)));
    return map.reduce((total, w, j) => total + (w ? w / Q * Math.log(w / mean[j % K]) : 0), longest);
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
  const ids = source.encode(source.withKnownSpaces($("text").value));
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
  state.found = state.edits.length || state.prefix.length ? compute(state.edits, state.prefix) : state.plain;
  const { tokens, text, maps, ms } = state.found;
  $("count").textContent = `${state.ids.length + tokens.length} pieces in ${Math.ceil(ms)} ms`;
  state.at = Math.min(state.at, tokens.length - 1);
  drawChips();
  drawChanges();
  explorer.rows = state.edits.filter(edit => edit.weights);
  explorer.update([{ source: $("text").value, target: text, maps }]);
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
  $("candidates").replaceChildren(...shown.map(id =>
    candidate(id === EOS ? "end" : pieceOf(target.pieces[id]).label, probabilities[id], id === token, () => choosePiece(t, id))),
  remaining(shown.map(id => probabilities[id])));
  $("step").textContent = `step ${t + 1} of ${tokens.length}`;
  $("play").disabled = false;
  $("back").disabled = t === 0;
  $("on").disabled = t === tokens.length - 1;
}

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
view.force = (_, row) => {
  const weights = new Float32Array(view.kind === "decoder_self" ? row.query + 1 : explorer.maps.K);
  weights[row.key] = 1;
  state.edits = toggleRow(state.edits, { ...row, weights });
  update();
};

/* head null: all heads of the layer. */
function toggleHeads(layer, head) {
  const heads = head === null ? range(explorer.maps.H) : [head], wasOn = heads.some(h => isOn(layer, h));
  state.edits = state.edits.filter(edit => !(edit.weights === null && edit.kind === view.kind && edit.layer === layer && heads.includes(edit.head)));
  if (wasOn) state.edits.push(...heads.map(h => ({ kind: view.kind, layer, head: h, query: null, weights: null })));
  update();
}

const isOn = (layer, head) => !state.edits.some(edit => edit.weights === null && edit.kind === view.kind && edit.layer === layer && edit.head === head);
const switchedOff = edit => `${view.titles[edit.kind].toLowerCase()}${placeOf(edit)} off`;

function drawChanges() {
  const { edits, prefix, found, plain } = state;
  const remove = (text, action, isUnused) => changeButton(text, () => { action(); if (state.plain) update(); else drawChanges(); }, isUnused);
  const changes = edits.map(edit => remove(edit.weights ? describeRow(edit) : switchedOff(edit),
    () => { state.edits = edits.filter(other => other !== edit); }, found && edit.query >= found.maps[edit.kind].rows.length));
  if (prefix.length) changes.push(remove(`piece ${prefix.length}: ${isolate(pieceOf(target.pieces[prefix.at(-1)]).label)}`, () => { state.prefix = []; }));
  if (changes.length > 1) changes.push(remove("all changes", () => { state.edits = []; state.prefix = []; }));
  $("changes").replaceChildren(...changes);
  $("before").hidden = !found || found.text === plain.text;
  $("unchanged").textContent = plain?.text ?? "";
}

/* ---- Attention: the maps of attention.js, which the reader can change. */
class Explorer extends ForcibleSystem {
  pin(side, index, count) {
    super.pin(side, index, count);
    if (side === "rows" && view.kind !== "encoder_self") { state.at = index; drawStep(); }
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

  focused() {
    const { switch: name } = document.activeElement?.dataset ?? {};
    return name ? () => this.grid.querySelector(`[data-switch="${name}"]`) : super.focused();
  }
}

const explorer = new Explorer({ name: "this model", family: "this model", pairs: [] }, 0);

/* ---- Start. */
const explain = () => { $("explain").textContent = EXPLAIN[view.kind]; };
function start() {
  explain();
  Object.assign(view, { titles: data.titles, systems: [explorer] });
  $("systems").append(explorer.element);
  const kinds = Object.keys(model.attentionLayers);
  $("kinds").hidden = kinds.length < 2;
  $("kinds").append(...kinds.map(kind => make("label", {}, make("input", { type: "radio", name: "kind", value: kind,
    class: "visually-hidden", checked: kind === view.kind, onchange: () => { view.kind = kind; explain(); explorer.show(); if (kind !== "encoder_self") select(state.at); } }), data.titles[kind])));
  const { cross, encoder_self: encoder } = model.attentionLayers, count = data.tensors.reduce((total, [, shape]) => total + shape.reduce((a, b) => a * b), 0);
  const name = encoder ? `a transformer with ${encoder} + ${cross} layers of ${model.num_heads} heads and` : "a recurrent network with attention and";
  $("facts").textContent = `${data.languages.join(" → ")}: ${name} ${(count / 1e6).toFixed(1)} million weights. It runs here, in your browser.`;
  $("examples").append(...data.examples.map(text => make("option", { value: text }, text)));
  $("examples").hidden = !data.examples.length;
  $("text").value = data.examples[0] ?? "";
  read();
}
start();
