const data = JSON.parse($("data").textContent);
const titleOf = name => ({ aer: "Alignment error rate", comet: "COMET" })[name] ?? name;
if ($("curves")) showCurves(data.figures.map(({ title, unit, curves }) => {
  const named = Object.entries(curves).filter(([, [steps]]) => steps.length);
  return { title: titleOf(title), unit, wide: title === "Gradient norm", reference: data.selected, curves: named.map(([name, [steps, values]]) =>
    ({ name: named.length > 1 ? name : "", side: { valid: 0, BLEU: 0, train: 1, chrF: 2 }[name] ?? 0, steps, values, clock: data.clock })) };
}));

/* ---- a slider over the validations; all sliders of the page move together */

const sliders = [];
let playing;
function slider(place, name, stepsOf, show) {
  const input = make("input", { type: "range", min: 0, step: 1, "aria-label": name });
  const output = make("output");
  const play = make("button", { type: "button" }, "▶ Play");
  const self = {
    reset(step = Infinity) {
      this.steps = stepsOf();
      input.max = this.steps.length - 1;
      this.go(step);
    },
    go(step) {
      const index = Math.max(0, this.steps.findLastIndex(each => each <= step));
      input.value = index;
      output.textContent = `step ${this.steps[index].toLocaleString("en")}`;
      input.setAttribute("aria-valuetext", output.textContent);
      show(index);
    },
  };
  const choose = index => {
    const step = self.steps[index];
    remember("step", index === self.steps.length - 1 ? Infinity : step);
    for (const each of sliders) each.go(step);
  };
  const stop = () => {
    clearInterval(playing);
    document.querySelectorAll(".time button").forEach(button => { button.textContent = "▶ Play"; });
    playing = undefined;
  };
  input.oninput = () => { stop(); choose(+input.value); };
  play.onclick = () => {
    if (playing) return stop();
    if (+input.value === self.steps.length - 1) choose(0);
    play.textContent = "❚❚ Pause";
    playing = setInterval(() => { if (+input.value < self.steps.length - 1) choose(+input.value + 1); else stop(); }, Math.max(120, Math.min(700, 6000 / self.steps.length)));
  };
  place.append(play, input, output);
  sliders.push(self);
  self.reset(+remembered("step", Infinity));
  place.hidden = self.steps.length < 2;
  return self;
}

/* ---- translations */

const segmenter = Intl.Segmenter && new Intl.Segmenter(undefined, { granularity: "word" });
const wordsOf = text => segmenter ? Array.from(segmenter.segment(text), each => each.segment) : text.split(/(\s+)/);
/* The text, with the words that are not in the longest common subsequence with the text before marked. */
function marked(text, before) {
  const words = wordsOf(text);
  if (before === undefined) return [text];
  const old = wordsOf(before), length = Array.from({ length: words.length + 1 }, () => new Uint16Array(old.length + 1));
  for (let i = words.length - 1; i >= 0; i--) for (let j = old.length - 1; j >= 0; j--)
    length[i][j] = words[i] === old[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const parts = [];
  let [i, j, fresh] = [0, 0, ""];
  const flush = () => {
    const [, before, inside, after] = fresh.match(/^(\s*)(.*?)(\s*)$/s);
    parts.push(before, inside && make("ins", {}, inside), after);
    fresh = "";
  };
  while (i < words.length) {
    if (j < old.length && words[i] === old[j]) { flush(); parts.push(words[i]); i++; j++; }
    else if (j < old.length && length[i][j + 1] >= length[i + 1][j]) j++;
    else fresh += words[i++];
  }
  flush();
  return parts;
}

/* All versions of a translation, each with the steps at which it was made. */
function history(set, sentence) {
  const versions = [];
  set.steps.forEach((step, i) => {
    const text = set.translations[i][sentence];
    if (versions.at(-1)?.text === text) versions.at(-1).last = step;
    else versions.push({ text, first: step, last: step });
  });
  const step = number => number.toLocaleString("en");
  const list = make("ol", {}, ...versions.map(({ text, first, last }, i) => make("li", { dir: "auto" },
    make("small", {}, first === last ? `step ${step(first)}` : `steps ${step(first)} – ${step(last)}`), ...(text ? marked(text, versions[i - 1]?.text) : [make("em", {}, "empty")]))));
  return make("details", {}, make("summary", {}, `${versions.length} version${versions.length > 1 ? "s" : ""}`), list);
}

for (const [name, set] of Object.entries(data.samples)) {
  const articles = set.source.map((source, sentence) => {
    const translation = make("p", { class: "translation", dir: "auto" });
    return make("article", { "aria-label": `Sentence ${sentence + 1}` }, make("p", { class: "source", dir: "auto" }, source), translation,
      make("p", { class: "wanted", dir: "auto" }, set.reference[sentence], make("small", {}, " reference")), history(set, sentence));
  });
  if (Object.keys(data.samples).length > 1) $("samples").append(make("h3", {}, name));
  $("samples").append(...articles);
  const place = $("samples-time").childElementCount ? $("samples").insertBefore(make("div", { class: "time" }), articles[0]) : $("samples-time");
  slider(place, `Validation of the translations of ${name}`, () => set.steps, index => articles.forEach((article, sentence) => {
    const text = set.translations[index][sentence], before = set.translations[index - 1]?.[sentence];
    article.querySelector(".translation").replaceChildren(...(text ? marked(text, before) : [make("em", {}, "empty")]));
    article.classList.toggle("right", text === set.reference[sentence]);
  }));
}

/* ---- attention maps */

if (data.maps.length) {
  const choice = $("map-choice");
  let map, index = 0;
  choice.append(...data.maps.map((each, i) => make("option", { value: i }, each.source)));
  choice.value = Math.min(+remembered("map", 0), data.maps.length - 1);
  const draw = () => {
    const [layer, head] = map.head, weights = Array.from(atob(map.weights[index]), byte => byte.charCodeAt(0));
    const name = `layer ${layer}, head ${head}, step ${map.steps[index].toLocaleString("en")}`;
    $("map-title").textContent = name;
    return scroll(`Attention map, ${name}`, heatMap({ ...map, weights, name: `Attention of “${map.target}” to “${map.source}”, ${name}` }));
  };
  const choose = () => { map = data.maps[+choice.value]; index = map.steps.length - 1; };
  choose();
  const shown = figure("Attention", "", draw);
  shown.querySelector("small").id = "map-title";
  $("maps").append(shown);
  const time = slider($("maps-time"), "Validation of the attention map", () => map.steps, to => { index = to; shown.redraw(); });
  choice.onchange = () => { remember("map", choice.value); const step = map.steps[index]; choose(); time.reset(step); };
}

showHeads(data.heads);

/* ---- the page of a run that trains */

if ($("age")) {
  const written = new Date($("written").dateTime.replace(" ", "T"));
  if (Date.now() - written > 3600e3)
    $("age").textContent = `That is ${Math.round((Date.now() - written) / 3600e3)} hours ago: the run may have ended. “heed report RUN” finds out.`;
  const idle = 60e3;  // ms without input after which the page loads itself again
  let touched = Date.now();
  for (const event of ["pointermove", "pointerdown", "keydown", "wheel"]) addEventListener(event, () => { touched = Date.now(); });
  setInterval(() => {
    if (!document.hidden && getSelection().isCollapsed && Date.now() - touched > idle) location.reload();
  }, 1000);
}
