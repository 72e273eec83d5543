const data = JSON.parse($("data").textContent);

/* A page without a server cannot translate: it shows the command that forces the chosen rows. */
class CommandSystem extends ForcibleSystem {
  constructor(system, number) {
    super(system, number);
    this.command = system.command;
    this.changes = make("ul", { class: "changes", "aria-label": "Forced rows" });
    this.code = make("code");
    this.copy = make("button", { class: "copy", type: "button", onclick: () => this.copyCommand() }, "Copy");
    this.box = make("div", { class: "forcing", hidden: true }, this.changes, make("pre", { class: "command", tabindex: 0, "aria-label": "Command" }, this.code), this.copy);
    this.bySentence = [];   // forced rows of each sentence
  }

  layOut() {
    super.layOut();
    this.how.after(this.box);
    this.setRows(this.bySentence[view.sentence] ?? []);
  }

  setRows(rows) {
    const { source, target } = this.pairs[view.sentence], given = data.given ? ["--tgt", target] : [];
    this.rows = this.bySentence[view.sentence] = rows;
    const words = [...this.command, source, ...given, ...rows.flatMap(row => ["--force", instruction(row)])];
    this.code.textContent = words.map(quote).join(" ");
    this.changes.replaceChildren(...rows.map(row => changeButton(describeRow(row), () => { this.setRows(toggleRow(rows, row)); this.highlight(); })));
    this.box.hidden = !rows.length;
  }

  async copyCommand() {
    const { code, copy } = this;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    } catch {   // browsers may forbid it to files: the reader copies the selected text
      getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }
}

view.wordOf = (system, side, index) => wordOf(system.pairs[view.sentence].words, side, index);
view.force = (system, row) => { system.setRows(toggleRow(system.rows, row)); system.highlight(); };

/* A row as `heed attend --force` reads it. */
const KINDS = { cross: "cross", encoder_self: "encoder", decoder_self: "decoder" };
const instruction = ({ kind, layer, head, names }) => `${KINDS[kind]}${layer === null ? "" : ` layer ${layer + 1}`}${head === null ? "" : ` head ${head + 1}`}: ${names[0]} → ${names[1]}`;
/* A word of a command, for shells. */
const quote = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

function show() {
  $("source").textContent = data.systems[0].pairs[view.sentence].source || "—";
  $("explain").textContent = EXPLAIN[view.kind];
  for (const system of view.systems) { system.show(); showWords(system); }
}

/* The translation, with the probability of each word. */
function showWords({ number, target, pairs }) {
  const words = data.systems[number].words[view.sentence] ?? [], text = pairs[view.sentence].target.split(/\s+/).filter(Boolean);
  if (!words.length || words.length !== text.length || !/\p{L}/u.test(pairs[view.sentence].source)) return;   // without letters, it is copied
  const spans = words.map((_, index) => make("span", { class: "w", tabindex: index ? -1 : 0,
    onkeydown: event => moveAmongWords(event, spans) }, text[index]));
  spans.forEach((span, index) => shadeWord(span, Math.exp(words[index][1])));
  target.replaceChildren(...spans.flatMap(span => [span, " "]), make("small", {}, view.note));
}

for (const [kind, title] of Object.entries(data.titles)) {
  if (!data.systems.some(system => system.pairs.some(pair => pair.maps[kind]))) continue;
  $("kinds").append(make("label", {}, make("input", { type: "radio", name: "kind", value: kind, class: "visually-hidden",
    checked: kind === view.kind, onchange: () => { view.kind = kind; show(); } }), title));
}
data.systems[0].pairs.forEach((pair, index) => $("sentences").append(make("option", { value: index }, pair.source)));
$("sentences").hidden = data.systems[0].pairs.length < 2;
$("sentences").onchange = event => { view.sentence = +event.target.value; show(); };

Object.assign(view, { titles: data.titles, outcome: "The command that forces it appears here.", note: data.given ? "given translation" : "model's translation" });
view.systems = data.systems.map((system, number) => system.command.length ? new CommandSystem(system, number) : new System(system, number));
$("systems").append(...view.systems.map(system => system.element));
show();
