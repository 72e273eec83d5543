/* The page of `heed serve`: a text and its translations, and the attention of one of its sentences. */
const DELAY = 350;            // milliseconds from the last key to the request
const DWELL = 220;            // milliseconds for which the pointer rests on another sentence before its attention is shown
const ALTERNATIVES = 3, CANDIDATES = 8;
const state = {
  languages: [], models: [], limit: Infinity, textLimit: Infinity,
  chosen: [],                 // names of models, at least one
  sentences: [], tail: "",    // {before, text}: a sentence and the white space before it
  results: {},                // by model: {texts, others}
  active: 0,                  // the sentence whose attention is shown
  pointed: null,              // {model, sentence, word} in a translation
  origin: null,               // the model whose attention is painted behind the text
  heads: {},                  // by model: the chosen [layer, head] of each kind
  shown: [],                  // answers of /attend for the active sentence
  forced: {},                 // by model and sentence, see forcedIn: {rows, text}, the forced rows and the translation with them
  begun: {},                  // by model and sentence: {prefix, text, others}: the reader's words, and the translation without them
  terms: {},                  // by source words: lists of target words
  marks: true,                // whether unsure words are marked
};
const answers = new Map();    // of /attend and /words

/* Errors of the server, of the network (status 0), and of the text itself (status 400). */
class ServerError extends Error {
  constructor(status, message, retryAfter = 0) { super(message); Object.assign(this, { status, retryAfter }); }
}

async function ask(path, body, signal) {
  let response, content;
  try {
    response = await fetch(path, body && { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...body, ...$("key").value && { api_key: $("key").value } }), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server does not answer. It may have been stopped.");
  }
  try {
    content = await response.json();
  } catch (error) {   // an error page of a proxy
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && content) return content;
  throw new ServerError(response.status, content?.error ?? `The server cannot be reached: its proxy answered with status ${response.status}.`,
    Number(response.headers.get("Retry-After")));
}

/* The answer of a path to this body, which the server computes only once. */
async function askOnce(path, body, signal) {
  const key = path + JSON.stringify(body);
  if (!answers.has(key)) {
    const answer = await ask(path, body, signal);
    if (answers.size > 500) answers.delete(answers.keys().next().value);
    answers.set(key, answer);
  }
  return answers.get(key);
}

/* ---- Messages: an error with its way out. What may pass by itself is tried again. */
const PASSING = [0, 429, 502, 503, 504];
let retryTimer;
function tell(error, again) {
  clearInterval(retryTimer);
  $("message").hidden = !error;
  if (!error) return;
  let wait = PASSING.includes(error.status) ? Math.max(1, error.retryAfter || 5) : 0;
  const write = () => {
    $("message-text").textContent = { 403: "This server needs an API key: enter a valid one above.", 429: "The server is busy." }[error.status] ?? error.message;
    $("retry").textContent = wait ? `Try again (in ${wait} s)` : "Try again";
  };
  $("retry").hidden = [400, 403].includes(error.status);   // the user changes the text or the key
  $("retry").onclick = again;
  write();
  if (wait) retryTimer = setInterval(() => { wait -= 1; if (wait > 0) write(); else { clearInterval(retryTimer); again(); } }, 1000);
}

/* ---- Text: its sentences, and the words of sentences. */
const ABBREVIATION = /(^|\s)(\p{Lu}\p{Ll}?|Mrs|Prof|bzw|etc|vgl)\.\s*$/u;

function sentencesOf(text, language) {
  const segmenter = globalThis.Intl?.Segmenter && new Intl.Segmenter(langOf(language) || undefined, { granularity: "sentence" });
  const found = [];
  let before = "";
  text.split(/(\n+)/).forEach((line, index) => {
    if (index % 2) { before += line; return; }
    const parts = [];
    for (const part of segmenter && line ? [...segmenter.segment(line)].map(each => each.segment) : [line]) {
      if (parts.length && ABBREVIATION.test(parts.at(-1))) parts[parts.length - 1] += part; else parts.push(part);
    }
    for (const part of parts) {
      const start = before + part.match(/^\s*/)[0];
      if (!part.trim()) { before = start; continue; }
      found.push({ before: start, text: part.trim() });
      before = part.match(/\s*$/)[0];
    }
  });
  return { sentences: found, tail: before };
}

const wordsOf = text => text.split(/(\s+)/).filter(Boolean);
/* The pieces of each word, {index, count}; null if they are not those of the text. */
function wordPieces(pieces, text) {
  const words = [];
  pieces.forEach((piece, index) => {
    if (piece.special) return;
    if (piece.opens || !words.length) words.push({ index, count: 1 }); else words.at(-1).count++;
  });
  return words.length === text.split(/\s+/).filter(Boolean).length ? words : null;
}

/* ---- Languages and models. */
const source = () => $("source").value, target = () => $("target").value;
const languageName = code => state.languages.find(each => each.code === code)?.name ?? code;
/* The fields of a request to one model. Of several models, all have the same languages. */
const direction = model => ({ source: source() === "auto" ? state.results[model].language : source(), target: target(), model });
const langOf = code => code === "auto" ? "" : code.replaceAll("_", "-");   // pt_BR is pt-BR in BCP 47
const fill = (select, codes, wanted) => {
  select.replaceChildren(...codes.map(code => make("option", { value: code }, code === "auto" ? "Detect language" : languageName(code))));
  select.value = codes.includes(wanted) ? wanted : codes[0];
};
const targetsOf = code => code === "auto" ? [...new Set(state.languages.flatMap(each => each.targets))]
  : state.languages.find(each => each.code === code)?.targets.filter(each => each !== code) ?? [];
const candidates = () => state.models.filter(model => model.directions.some(each =>
  (source() === "auto" || each.source === source()) && each.target === target())).map(model => model.name);
const sideOf = model => `side-${Math.max(0, candidates().indexOf(model)) % 6}`;

async function start() {
  tell(null);
  try {
    const [languages, models, settings] = await Promise.all(["languages", "models", "frontend/settings"].map(path => ask(path)));
    Object.assign(state, { languages, models, limit: settings.charLimit, textLimit: settings.textLimit });
    $("key-label").hidden = !settings.keyRequired;
    const sources = languages.filter(each => each.targets.length).map(each => each.code);
    fill($("source"), sources.length > 1 ? [...sources, "auto"] : sources, settings.language.source.code);
    chooseSource(settings.language.target.code);
  } catch (error) { tell(error, start); }
}

function chooseSource(wanted = target()) {
  fill($("target"), targetsOf(source()), wanted);
  chooseTarget();
}

function chooseTarget() {
  $("field").lang = langOf(source());
  const names = candidates();
  state.chosen = state.chosen.filter(name => names.includes(name));
  if (!state.chosen.length) state.chosen = names.slice(0, 1);
  $("swap").disabled = !targetsOf(target()).includes(source());
  $("models").hidden = names.length < 2 || source() === "auto";
  if ($("models").hidden) state.chosen = names.slice(0, 1);
  $("models").replaceChildren($("models").firstElementChild, ...names.map(name => make("label", { class: sideOf(name) },
    make("input", { type: "checkbox", class: "visually-hidden", checked: state.chosen.includes(name),
      onchange: event => chooseModel(name, event.target) }), name)));
  state.results = {};
  translate();
}

function chooseModel(name, input) {
  const rest = state.chosen.filter(each => each !== name);
  if (!input.checked && !rest.length) { input.checked = true; return; }   // one model at least
  state.chosen = candidates().filter(each => rest.includes(each) || (each === name && input.checked));
  translate();
}

function swap() {
  const [from, to, text] = [source(), target(), translationOf(state.chosen[0])];
  $("source").value = to;
  if (text) { $("text").value = text; }
  chooseSource(from);
  grow();
}

/* ---- Translate. */
let timer, running;
function later() {
  clearTimeout(timer);
  timer = setTimeout(translate, DELAY);
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  const { signal } = running = new AbortController(), text = $("text").value;
  count();
  if (!text.trim() || text.length > state.limit || !state.chosen.length) {
    Object.assign(state, { sentences: [], tail: "", results: {} });
    const over = text.length - state.limit;
    tell(over > 0 ? new ServerError(400, `The text is too long by ${over.toLocaleString("en")} characters.`) : null);
    render();
    return;
  }
  const { sentences, tail } = sentencesOf(text, source()), chosen = state.chosen;
  render(true);
  try {
    state.terms = readTerms();
    const found = await Promise.all(chosen.map(model => translateAll(sentences.map(each => each.text), model, signal)));
    const results = Object.fromEntries(chosen.map((model, i) => [model, found[i]]));
    Object.assign(state, { sentences, tail, results, forced: {}, begun: {}, pointed: null, active: Math.min(sentenceAtCaret(sentences), sentences.length - 1) });
    tell(null);
    render();
    $("spoken").textContent = chosen.map(model => (chosen.length > 1 ? `${model}: ` : "") + translationOf(model)).join(" ");
    attend();
    weigh(signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    render();
    $("results").classList.add("stale");   // what is shown is not the translation of this text
    tell(error, translate);
  }
}

/* In requests of no more texts than the server accepts. */
async function translateAll(texts, model, signal) {
  const all = { texts: [], others: [] };
  for (let start = 0; start < texts.length; start += state.textLimit) {
    const found = await ask("translate", { q: texts.slice(start, start + state.textLimit), source: source(), target: target(),
      alternatives: ALTERNATIVES, terms: state.terms, ...source() !== "auto" && { model } }, signal);
    all.texts.push(...found.translatedText);
    all.others.push(...found.alternatives ?? []);
    all.language ??= found.detectedLanguage?.[0]?.language;
  }
  return all;
}

/* Lines such as "dog = Köter | Hund". */
function readTerms() {
  const terms = {};
  $("terms").value.split("\n").forEach((line, index) => {
    const [words, targets] = line.split(/\s*[=\t]\s*/), found = targets?.split("|").map(each => each.trim()).filter(Boolean) ?? [];
    if (line.trim() && !(words.trim() && found.length)) throw new ServerError(400, `Line ${index + 1} of the terms must be like: dog = Köter`);
    if (line.trim()) terms[words.trim()] = [...terms[words.trim()] ?? [], ...found];
  });
  $("terms-count").textContent = Object.keys(terms).length ? ` (${Object.keys(terms).length})` : "";
  return terms;
}
const constraints = (model, sentence) => ({ prefix: state.begun[`${sentence} ${model}`]?.prefix, terms: state.terms });

function sentenceAtCaret(sentences) {
  let end = 0;
  const index = sentences.findIndex(each => (end += each.before.length + each.text.length) >= $("text").selectionStart);
  return index < 0 ? sentences.length - 1 : index;
}

const forcedIn = (model, sentence = state.active) => state.forced[`${sentence} ${model}`];
const textsOf = model => state.results[model]?.texts.map((text, i) => forcedIn(model, i)?.text ?? text);
const translationOf = model => textsOf(model)?.map((text, i) => (i || state.sentences[i].before.includes("\n") ? gap(i) : "") + text).join("") ?? "";
/* Between sentences of a line there is a space, between lines what was there. */
const gap = index => index && !state.sentences[index].before ? "" : state.sentences[index].before;

/* ---- Draw the translations. */
function render(busy = false) {
  const { results, sentences } = state;
  $("results").classList.remove("stale");
  $("results").replaceChildren(...state.chosen.map(model => {
    const result = results[model], texts = textsOf(model) ?? [];
    const output = make("p", { class: "output", lang: langOf(target()), dir: "auto", "data-model": model });
    texts.forEach((text, index) => output.append(gap(index), make("span", { class: `sentence${index === state.active ? " active" : ""}`, "data-sentence": index },
      ...spans(model, text, index))));
    if (!texts.length) output.append(make("span", { class: "waiting" }, busy ? "Translating …" : "Translation"));
    else if (!texts.some(text => text.trim())) output.append(make("span", { class: "waiting" }, "The translation is empty."));
    const copy = make("button", { class: "plain", type: "button", disabled: !texts.length, onclick: event => copyText(model, event.target) }, "Copy");
    return make("article", { class: `pane result ${sideOf(model)}`, "aria-label": `Translation by ${model}`, "aria-busy": String(busy), "data-model": model },
      state.chosen.length > 1 ? make("h2", {}, model) : "", output,
      make("div", { class: "others" }, ...others(model)),
      make("p", { class: "foot" }, copy, result?.language && source() === "auto" ? make("span", {}, `from ${languageName(result.language)}`) : "",
        texts.some((_, index) => forcedIn(model, index)) ? make("span", { class: "is-forced" }, "with forced attention") : "",
        texts.some((_, index) => state.begun[`${index} ${model}`]) ? make("button", { class: "plain", type: "button", onclick: () => undo(model) }, "Undo my words") : "",
        texts.length ? make("label", { class: "marks" }, make("input", { type: "checkbox", role: "switch", checked: state.marks,
          onchange: event => mark(event.target.checked) }), "mark unsure words") : ""));
  }));
  if (!state.chosen.length) $("results").replaceChildren(make("article", { class: "pane result" }, make("p", { class: "output" })));
  $("panes").classList.toggle("several", state.chosen.length > 1);
  for (const model of state.chosen) (textsOf(model) ?? []).forEach((_, index) => shade(model, index));
  closeChoices();
  grow();
  $("empty").hidden = sentences.length > 0;
  $("inside").hidden = !sentences.length;
  paintText();
  showActive();
}

/* Scroll the translations to the active sentence; a long translation has its own scroll bar. */
function showActive() {
  for (const sentence of document.querySelectorAll(".sentence.active")) {
    const output = sentence.closest(".output"), { offsetTop: top, offsetHeight: height } = sentence;
    if (top < output.scrollTop || top + height > output.scrollTop + output.clientHeight) output.scrollTop = top - output.clientHeight / 3;
  }
}

function spans(model, text, sentence) {
  let word = -1;
  return wordsOf(text).map(part => {
    if (!part.trim()) return part;
    word += 1;
    const place = { model, sentence, word };
    return make("span", { class: "w", role: "button", "aria-haspopup": "dialog", tabindex: sentence === state.active && !word ? 0 : -1,
      onpointerenter: event => event.pointerType === "mouse" && point(place, false), onpointerleave: () => leave(),
      onfocus: () => point(place, true), onblur: () => leave(), onclick: event => chooseWord(place, event.currentTarget), onkeydown: event => onWordKey(event, place) }, part);
  });
}

function others(model) {
  const { texts = [], others: found = [] } = state.results[model] ?? {}, other = (found[state.active] ?? []).filter(text => text !== texts[state.active]);
  const level = state.chosen.length > 1 ? "h3" : "h2";  // several models have headings of their own
  return other.length ? [make(level, { class: "title" }, texts.length > 1 ? "Other translations of this sentence" : "Other translations"),
    make("ul", { lang: langOf(target()) }, ...other.map(text => make("li", { dir: "auto" }, text)))] : [];
}

async function copyText(model, button) {
  try {
    await navigator.clipboard.writeText(translationOf(model));
    button.textContent = "Copied";
  } catch { button.textContent = "Could not copy"; }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

/* ---- Words of the translation. */
const wordElements = model => [...document.querySelectorAll(".output")].filter(each => each.dataset.model === model).flatMap(each => [...each.querySelectorAll(".w")]);
const systemOf = model => view.systems.find(system => system.name === model);
let dwelling;

function point(place, now) {
  clearTimeout(dwelling);
  state.pointed = place;
  state.origin = place.model;
  if (place.sentence === state.active) { hoverWord(place); return; }
  dwelling = setTimeout(() => activate(place.sentence), now ? 0 : DWELL);
}

function leave() {
  clearTimeout(dwelling);
  state.pointed = null;
  for (const system of view.systems) if (system.maps) system.hover(null);
}

function piecesOfWord(place) {
  const system = systemOf(place.model);
  if (view.kind === "encoder_self" || !system?.maps || place.sentence !== state.active) return null;
  const pieces = system.targetWords?.[place.word], shift = view.kind === "decoder_self" ? 1 : 0;
  return pieces && { system, index: pieces.index + shift, count: pieces.count };
}

function hoverWord(place) {
  const found = piecesOfWord(place);
  if (found) found.system.hover("rows", found.index, found.count);
}

/* Pin a word; a second time unpins it, unless it `stays`. */
function pinWord(place, stays = false) {
  state.origin = place.model;
  const found = piecesOfWord(place), { side, index } = found?.system.pinned ?? {};
  if (found && stays && side === "rows" && index === found.index) return;
  if (found) found.system.pin("rows", found.index, found.count);
  else if (place.sentence !== state.active) { state.pointed = { ...place, pin: true }; activate(place.sentence); }
}

function onWordKey(event, place) {
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); chooseWord(place, event.currentTarget, true); return; }
  moveAmongWords(event, wordElements(place.model));
}

/* ---- How probable words are, and which others there are. */
const wordsIn = text => text.split(/\s+/).filter(Boolean);
const elementsOf = (model, sentence) => wordElements(model).filter(each => +each.closest(".sentence").dataset.sentence === sentence);
const bodyOfWords = (model, sentence) => ({ q: state.sentences[sentence].text, translation: textsOf(model)[sentence], ...direction(model) });

/* The probabilities of the words of a sentence, if they are known, and those of the model as it is. */
function wordsOfModel(model, sentence) {
  if (forcedIn(model, sentence)) return [];
  const words = answers.get(`words${JSON.stringify(bodyOfWords(model, sentence))}`)?.words ?? [];
  return words.length === wordsIn(textsOf(model)[sentence]).length ? words : [];
}

/* One sentence after the other, from the active one on, so that other readers are not kept waiting. */
async function weigh(signal) {
  const all = state.sentences.map((_, index) => index), { active } = state;
  for (const sentence of [...all.slice(active), ...all.slice(0, active)]) for (const model of state.chosen) {
    if (!/\p{L}/u.test(state.sentences[sentence].text)) continue;   // it is copied
    try {
      await askOnce("words", bodyOfWords(model, sentence), signal);
    } catch { return; }   // words are then not marked
    shade(model, sentence);
  }
}

function shade(model, sentence) {
  const words = wordsOfModel(model, sentence);
  elementsOf(model, sentence).forEach((element, index) => shadeWord(element, state.marks && words[index] ? words[index].probability : null));
}

function mark(isOn) {
  state.marks = isOn;
  document.querySelectorAll(".marks input").forEach(input => { input.checked = isOn; });
  for (const model of state.chosen) state.sentences.forEach((_, index) => shade(model, index));
}

/* Pin a word, and show the candidates for its place; or close them. */
async function chooseWord(place, element, byKey = false) {
  const wasOpen = !$("choices").hidden && $("choices").word === element;
  closeChoices();
  const { model, sentence, word } = place, isForced = Boolean(forcedIn(model, sentence));
  pinWord(place, !wasOpen && !isForced);
  if (wasOpen || isForced) return;   // the candidates are those of the model as it is
  const box = $("choices"), own = wordsIn(textsOf(model)[sentence]), before = own.slice(0, word).join(" ");
  box.word = element;
  box.className = `choices ${sideOf(model)}`;
  $("choices-title").textContent = "…";
  $("candidates").replaceChildren();
  box.hidden = false;
  putBelow(box, element);
  try {
    const { candidates } = await askOnce("words", { ...bodyOfWords(model, sentence), translation: before, candidates: CANDIDATES });
    if (box.word !== element) return;
    const known = wordsOfModel(model, sentence)[word], shown = candidates.some(each => each.text === own[word]) || !known ? candidates : [...candidates.slice(0, -1), known];
    $("choices-title").textContent = before ? `The next word after “${isolate(own.slice(Math.max(0, word - 4), word).join(" "))}”` : "The first word";
    $("candidates").lang = langOf(target());
    $("candidates").replaceChildren(...shown.map(({ text, probability }) =>
      candidate(text || "(end)", probability, text === own[word], text ? () => continueFrom(place, text) : null)), remaining(shown.map(each => each.probability)));
    putBelow(box, element);
    if (byKey) $("candidates").querySelector("[aria-pressed=true], button").focus();
  } catch (error) { $("choices-title").textContent = error.message; }
}

function putBelow(box, element) {
  const { left, bottom } = element.getBoundingClientRect();
  box.style.left = `${scrollX + Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${scrollY + bottom + 8}px`;
  box.scrollIntoView({ block: "nearest" });
}

function closeChoices() {
  const hadFocus = $("choices").contains(document.activeElement), { word } = $("choices");
  Object.assign($("choices"), { hidden: true, word: null });
  if (hadFocus) word.focus();
}

/* Keep the words before a place, and let the model continue from another word. */
async function continueFrom({ model, sentence, word }, chosen) {
  const result = state.results[model], key = `${sentence} ${model}`;
  const prefix = `${[...wordsIn(result.texts[sentence]).slice(0, word), chosen].join(" ")} `;
  closeChoices();
  try {
    const found = await ask("translate", { q: state.sentences[sentence].text, ...direction(model), alternatives: ALTERNATIVES, prefix, terms: state.terms }, running.signal);
    const { text, others } = state.begun[key] ?? { text: result.texts[sentence], others: result.others[sentence] };
    state.begun[key] = { prefix, text, others };
    change(model, sentence, found.translatedText, found.alternatives);
    elementsOf(model, sentence)[word]?.focus();
  } catch (error) { if (error.name !== "AbortError") tell(error, () => continueFrom({ model, sentence, word }, chosen)); }
}

function undo(model) {
  for (const [key, { text, others }] of Object.entries(state.begun)) {
    const [sentence, ...name] = key.split(" ");
    if (name.join(" ") !== model) continue;
    delete state.begun[key];
    delete state.forced[key];
    change(model, +sentence, text, others);
  }
  elementsOf(model, state.active)[0]?.focus();
}

function change(model, sentence, text, others) {
  state.results[model].texts[sentence] = text;
  state.results[model].others[sentence] = others;
  state.active = sentence;
  tell(null);
  render();
  $("spoken").textContent = text;
  attend();
  weigh(running.signal);
}

function activate(sentence) {
  state.active = sentence;
  document.querySelectorAll(".sentence").forEach(each => each.classList.toggle("active", +each.dataset.sentence === sentence));
  document.querySelectorAll(".others").forEach(each => each.replaceChildren(...others(each.closest(".result").dataset.model)));
  attend();
}

/* ---- Attention of the active sentence. */
let looking;
async function attend(force = null) {   // a change {model, rows}, which counts if the server accepts it
  looking?.abort();
  const { signal } = looking = new AbortController(), { active } = state, text = state.sentences[active]?.text;
  if (!text) return;
  const { chosen } = state;
  const rowsOf = model => (model === force?.model ? force.rows : forcedIn(model)?.rows) ?? [];
  $("systems").setAttribute("aria-busy", "true");
  try {
    const found = await Promise.all(chosen.map(async model => {
      const rows = rowsOf(model).map(({ kind, layer, head, queries, keys }) => ({ attention: kind, layer, head, queries, keys }));
      return askOnce("attend", { q: text, ...direction(model), ...constraints(model, active), ...rows.length && { force: rows } }, signal);
    }));
    if (force) {
      const { model, rows } = force, text = found[chosen.indexOf(model)].translation;
      if (rows.length) state.forced[`${active} ${model}`] = { rows, text }; else delete state.forced[`${active} ${model}`];
      tell(null);
      render();
      $("spoken").textContent = text;
    }
    showAttention(found, text);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (force) tell(error, () => attend(force));   // all else stays as it is
    else {
      view.systems = [];
      $("systems").replaceChildren();
      $("kinds").hidden = true;
      $("explain").textContent = "";
      $("note").textContent = error.status === 400 ? error.message : `${error.message} Attention is not shown.`;
    }
  }
  $("note").hidden = view.systems.length > 0;
  $("help").hidden = !view.systems.length;
  $("systems").setAttribute("aria-busy", "false");
}

/* The maps of a model, whose rows the reader can force: the server translates again. */
class ServedSystem extends ForcibleSystem {
  constructor(system, number) {
    super(system, number);
    this.unchanged = make("span", { dir: "auto" });
    this.before = make("p", { class: "before" }, make("span", {}, "without changes"), this.unchanged);
    this.changes = make("ul", { class: "changes", "aria-label": "Forced rows" });
    this.target.after(this.before, this.changes);
  }

  show() {
    super.show();
    const plain = state.results[this.name]?.texts[state.active], take = row => () => view.force(this, row);
    this.before.hidden = !this.rows.length;
    this.unchanged.lang = langOf(target());
    this.unchanged.textContent = plain === this.pairs[0].target ? `${plain} (the same)` : plain;
    this.changes.replaceChildren(...this.rows.map(row => changeButton(describeRow(row), take(row), row.kind !== "encoder_self" && row.query >= this.answer.tokens.target.length)),
      ...this.rows.length > 1 ? [changeButton("all changes", () => attend({ model: this.name, rows: [] }))] : []);
  }
}

view.wordOf = (system, side, index) => wordOf(system.answer.words, side, index);
view.force = (system, row) => attend({ model: system.name, rows: toggleRow(system.rows, row) });

function mapsOf(answer) {
  const sides = { cross: [answer.tokens.target, answer.tokens.source], encoder_self: [answer.tokens.source, answer.tokens.source] };
  const read = ["<s>", ...answer.tokens.target.slice(0, -1)];
  sides.decoder_self = [read, read];
  const maps = {};
  for (const kind of Object.keys(view.titles)) {
    const layers = answer.layers.filter(layer => layer.kind === kind).map(layer => layer.heads);
    if (!layers.length) continue;
    const [rows, columns] = sides[kind].map(pieces => pieces.map(pieceOf)), { layer, head } = answer.best[kind];
    maps[kind] = { shape: [layers.length, layers[0].length, rows.length, columns.length], rows, columns, best: [layer, head],
      weights: Float32Array.from(layers.flat(3)) };
  }
  return maps;
}

function showAttention(found, text) {
  state.shown = found;
  const before = view.systems;
  view.systems = found.map(answer => {
    const kept = before.find(system => system.name === answer.model && system.pairs[0].source === text);
    const system = kept ?? new ServedSystem({ name: answer.model, family: answer.family, heads: state.heads[answer.model] ??= {}, pairs: [] },
      Math.max(0, candidates().indexOf(answer.model)));
    if (!kept) for (const event of ["pointerover", "focusin"]) system.element.addEventListener(event, () => { state.origin = system.name; });
    system.answer = answer;
    system.rows = forcedIn(answer.model)?.rows ?? [];
    const isShown = textsOf(answer.model)?.[state.active] === answer.translation;
    system.targetWords = isShown ? wordPieces(answer.tokens.target.map(pieceOf), answer.translation) : null;
    system.sourceWords = wordPieces(answer.tokens.source.map(pieceOf), text);
    return system;
  });
  if (view.systems.some((system, i) => system !== before[i]) || before.length > found.length) $("systems").replaceChildren(...view.systems.map(system => system.element));
  const kinds = Object.keys(view.titles).filter(kind => found.some(answer => answer.best[kind]));
  if (!kinds.includes(view.kind)) view.kind = kinds[0] ?? "cross";
  $("kinds").hidden = kinds.length < 2;
  $("kinds").replaceChildren($("kinds").firstElementChild, ...kinds.map(kind => make("label", {}, make("input", { type: "radio", name: "kind",
    value: kind, class: "visually-hidden", checked: kind === view.kind, onchange: () => { view.kind = kind; showMaps(); } }), view.titles[kind])));
  $("explain").textContent = EXPLAIN[view.kind];
  view.systems.forEach((system, i) => system.update([{ source: text, target: found[i].translation, maps: mapsOf(found[i]) }]));
  const place = state.pointed;
  if (place?.sentence !== state.active) return;
  if (place.pin) pinWord(place); else hoverWord(place);
}

function showMaps() {
  $("explain").textContent = EXPLAIN[view.kind];
  for (const system of view.systems) system.show();
}

/* Paint behind the words of the text and of the translation what the model gave them: sums over the pieces of a word. */
view.onhighlight = (system, at) => {
  const words = wordElements(system.name).filter(each => +each.closest(".sentence").dataset.sentence === state.active);
  const isCross = view.kind === "cross";
  words.forEach((word, i) => {
    const pieces = isCross ? system.targetWords?.[i] : null;
    const share = pieces && at?.side === "columns" ? sum(pieces, row => system.weightTo(at, row)) * at.count / pieces.count : 0;
    word.style.setProperty("--heat", heat(Math.min(1, share), BEHIND_WORDS));
    word.classList.toggle("chosen", Boolean(pieces && at?.side === "rows" && at.index < pieces.index + pieces.count && pieces.index < at.index + at.count));
  });
  if (system.name === (systemOf(state.origin) ?? view.systems[0]).name) paintText(isCross ? system : null, at);
};
const sum = ({ index, count }, value) => Array.from({ length: count }, (_, i) => value(index + i)).reduce((a, b) => a + b, 0);

function paintText(system = null, at = null) {
  const parts = [], pieces = system?.sourceWords;
  state.sentences.forEach(({ before, text }, index) => {
    parts.push(before);
    if (index !== state.active || !at || !pieces) { parts.push(text); return; }
    let word = -1;
    for (const part of wordsOf(text)) {
      if (!part.trim()) { parts.push(part); continue; }
      const own = pieces[++word], isChosen = at.side === "columns" && at.index < own.index + own.count && own.index < at.index + at.count;
      const share = at.side === "rows" ? sum(own, column => system.weightTo(at, column)) : 0;
      parts.push(make("mark", { class: isChosen ? "chosen" : "", style: `--heat: ${heat(Math.min(1, share), BEHIND_WORDS)}` }, part));
    }
  });
  $("backdrop").className = `backdrop ${system ? sideOf(system.name) : ""}`;
  $("backdrop").replaceChildren(...parts, state.tail, "\u200b");
  $("backdrop").scrollTop = $("text").scrollTop;
}

/* ---- The candidates: arrow keys move, Esc and a click beside them close. */
$("choices").onkeydown = event => {
  const items = [...$("candidates").querySelectorAll("button:enabled")], index = items.indexOf(document.activeElement);
  const goal = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: items.length - 1 }[event.key];
  if (items[goal]) { event.preventDefault(); items[goal].focus(); }
};
addEventListener("keydown", event => { if (event.key === "Escape") closeChoices(); });
addEventListener("pointerdown", ({ target: element }) => { if (!element.closest(".w, .choices")) closeChoices(); });

/* ---- The text field. */
function grow() {
  const field = $("text");
  const { scrollTop } = field;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
  field.scrollTop = scrollTop;
}

function count() {
  const { length } = $("text").value, shown = number => number.toLocaleString("en");
  $("count").textContent = Number.isFinite(state.limit) ? `${shown(length)} / ${shown(state.limit)}` : "";
  $("count").classList.toggle("over", length > state.limit);
  $("clear").hidden = !length;
}

$("text").oninput = () => { grow(); count(); $("backdrop").replaceChildren(); later(); };
$("text").onscroll = () => { $("backdrop").scrollTop = $("text").scrollTop; };
$("clear").onclick = () => { $("text").value = ""; grow(); translate(); $("text").focus(); };
$("source").onchange = () => chooseSource();
$("target").onchange = chooseTarget;
$("swap").onclick = swap;
$("key").onchange = translate;
$("terms").oninput = later;
addEventListener("resize", grow);
Object.assign(view, { titles: JSON.parse($("titles").textContent), note: "" });
render();
start();
