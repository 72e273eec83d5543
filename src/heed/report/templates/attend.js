const data = JSON.parse($("data").textContent);

function show() {
  $("source").textContent = data.systems[0].pairs[view.sentence].source || "—";
  $("explain").textContent = EXPLAIN[view.kind];
  for (const system of view.systems) system.show();
}

for (const [kind, title] of Object.entries(data.titles)) {
  if (!data.systems.some(system => system.pairs.some(pair => pair.maps[kind]))) continue;
  $("kinds").append(make("label", {}, make("input", { type: "radio", name: "kind", value: kind, class: "visually-hidden",
    checked: kind === view.kind, onchange: () => { view.kind = kind; show(); } }), title));
}
data.systems[0].pairs.forEach((pair, index) => $("sentences").append(make("option", { value: index }, pair.source)));
$("sentences").hidden = data.systems[0].pairs.length < 2;
$("sentences").onchange = event => { view.sentence = +event.target.value; show(); };

Object.assign(view, { titles: data.titles, note: data.given ? "given translation" : "model's translation" });
view.systems = data.systems.map((system, number) => new System(system, number));
$("systems").append(...view.systems.map(system => system.element));
show();
setTheme();
