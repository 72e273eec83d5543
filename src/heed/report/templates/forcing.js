/* Maps in which a reader forces attention: drag a query onto a key, or choose one and then the other, by mouse, touch or keyboard;
   or click a cell of the heat map. A forced row is {kind, layer, head, query, key}: layer or head null are all of them, query and
   key are pieces. Pages set `view.force(system, row)`, `view.outcome`, what follows, and `view.wordOf(system, side, index)`,
   {name, pieces}: the pieces that are forced together; null if they cannot be. */
Object.assign(view, { outcome: "The model must then look only there.", wordOf: (system, side, index) => ({ name: system.maps[side][index].label, pieces: [index] }) });

class ForcibleSystem extends System {
  constructor(system, number) {
    super(system, number);
    this.rows = [];   // the forced rows
    this.how = make("p", { class: "how" });
    this.scope = make("fieldset", { class: "scope" }, make("legend", {}, "A change applies to"));
  }

  /* Force a query to attend to a key, in the heads that the reader has chosen. */
  force(query, key) {
    const [layer, head] = this.chosen, scope = +this.scope.querySelector(":checked").value;
    const [from, to] = [["rows", query], ["columns", key]].map(([side, index]) => view.wordOf(this, side, index));
    const say = (side, index, text) => { this.status.textContent = `“${isolate(this.maps[side][index].label)}” ${text}`; };
    if (!from || !to) { say(from ? "columns" : "rows", from ? key : query, "is no word that can be forced."); return; }
    if (view.kind === "decoder_self" && Math.max(...to.pieces) > Math.min(...from.pieces)) {
      say("columns", query, `cannot look at “${isolate(to.name)}”, which comes later.`);
      return;
    }
    view.force(this, { kind: view.kind, layer: scope ? layer : null, head: scope > 1 && head < this.maps.H ? head : null,
      query: from.pieces[0], key: to.pieces[0], queries: from.pieces, keys: to.pieces, names: [from.name, to.name] });
  }

  pin(side, index, count) {
    if (side === "columns" && this.pinned?.side === "rows") this.force(this.pinned.index, index);
    else super.pin(side, index, count);
  }

  hover(side, index, count) { if (!this.drag?.moved) super.hover(side, index, count); }

  layOut() {
    super.layOut();
    this.stage.before(this.how, this.scope);
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
    if (key < 0) { this.highlight(); return; }
    this.words.columns[key].classList.remove("drop");
    this.force(drag.index, key);
  }

  drawChart() {
    super.drawChart();
    this.frame.svg.addEventListener("click", ({ target: { dataset } }) => { if (dataset.q !== undefined) this.force(+dataset.q, +dataset.k); });
  }

  choose(layer, head) {
    this.chosen = [layer, head];
    super.choose(layer, head);
    const { L, H } = this.maps, chosen = this.scope.querySelector(":checked")?.value ?? "0";
    const names = ["all heads", `layer ${layer + 1}`, ...head < H ? [`layer ${layer + 1}, head ${head + 1}`] : []];
    const value = Math.min(+chosen, names.length - 1);
    this.scope.hidden = L * H === 1;
    this.scope.replaceChildren(this.scope.firstElementChild, ...names.map((name, i) => make("label", {},
      make("input", { type: "radio", name: `scope${this.number}`, value: i, checked: i === value }), name)));
  }

  highlight() {
    super.highlight();
    const at = this.pinned?.side === "rows" ? this.pinned.index : null, [layer, head] = this.chosen, { rows, H } = this.maps;
    const forced = this.rows.filter(row => row.kind === view.kind), at_row = forced.findLast(row => row.queries.includes(at));
    this.stage.classList.toggle("pinned", at !== null);
    this.words.rows.forEach((word, q) => word.classList.toggle("forced", forced.some(row => row.queries.includes(q)
      && (row.layer ?? layer) === layer && (head === H || (row.head ?? head) === head))));
    const isCross = view.kind === "cross", name = at !== null && `“${isolate(rows[at].label)}”`;
    this.how.textContent = at === null
      ? `Change it: drag a ${isCross ? "piece of the translation onto a piece of the source" : "query onto a key"}, or click one and then the other. ${view.outcome}`
      : at_row ? `${name} must look at “${isolate(at_row.names[1])}”. Click that piece again to take this back, or another one.`
      : `${name} is chosen. Click a ${isCross ? "piece of the source" : "key"}, and the model must look only there when it ${isCross ? "predicts" : "reads"} ${name}.`;
  }

  /* Where the keyboard is, as a function that finds the same place when everything is drawn again. */
  focused() {
    for (const side of this.words ? ["rows", "columns"] : []) {
      const index = this.words[side].indexOf(document.activeElement);
      if (index >= 0) return () => this.words[side][index];
    }
    return () => null;
  }

  /* Show the maps of the same sentence after a change. The pin and the keyboard stay where they are. */
  update(pairs) {
    const { pinned } = this, focused = this.focused();
    this.pairs = pairs;
    this.parsed.clear();
    this.show();
    if (pinned && this.maps && pinned.index < this.maps[pinned.side].length) { this.pinned = pinned; this.highlight(); }
    focused()?.focus();
  }
}

addEventListener("pointermove", event => view.systems.forEach(system => system.dragTo?.(event)));
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => view.systems.forEach(system => system.endDrag?.()));

/* The rows with one more. A second one for the same query and heads replaces the first; the same one again takes it back. */
function toggleRow(rows, row) {
  const isSame = other => ["kind", "layer", "head", "query"].every(name => other[name] === row[name]);
  const again = rows.some(other => isSame(other) && other.key === row.key);
  return rows.filter(other => !isSame(other)).concat(again ? [] : row);
}

const placeOf = ({ layer, head }) => layer === null ? "" : head === null ? `, layer ${layer + 1}` : `, layer ${layer + 1} head ${head + 1}`;
const describeRow = row => `${isolate(row.names[0])} → ${isolate(row.names[1])} (${view.titles[row.kind].toLowerCase()}${placeOf(row)})`;
/* A button that takes a change back. */
const changeButton = (text, takeBack, isUnused = false) => make("li", {}, make("button", { type: "button", class: isUnused ? "unused" : "",
  title: "Take this change back", onclick: takeBack }, text));

/* Rows of words, as `heed attend --force` names them. `words` has the pieces of each word of the source and of the target. */
function wordOf(words, side, index) {
  const isTarget = side === "rows" ? view.kind !== "encoder_self" : view.kind === "decoder_self";
  const shift = side === "columns" && isTarget ? 1 : 0;   // the decoder's input begins with <s>
  if (index < shift) return { name: "<s>", pieces: [0] };
  const found = Object.entries(words[isTarget ? "target" : "source"]).find(([, pieces]) => pieces.includes(index - shift));
  return found ? { name: found[0], pieces: found[1].map(piece => piece + shift) } : null;
}
