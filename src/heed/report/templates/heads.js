/* Small multiples: how each attention head changes over training. A chart: {title, unit, panels}; a panel: {layer, head, curves};
   a curve: {side, steps, values}, with values from 0 to 1. */

function headGrid({ title, unit, panels }) {
  return width => {
    const last = Math.max(...panels.flatMap(({ curves }) => curves.flatMap(({ steps }) => steps)));
    const heads = Math.max(...panels.map(({ head }) => head)), layers = new Set(panels.map(({ layer }) => layer)).size;
    const columns = Math.max(1, Math.min(heads, Math.floor(width / 84))), rows = Math.ceil(heads / columns);
    const gap = 12, top = 20, panelWidth = Math.min(240, (width - 26) / columns - gap), panelHeight = 62, pitch = top + panelHeight + gap;
    const svg = make("svg:svg", { class: "chart", role: "group", "aria-label": `${title}, ${unit}`, width, height: layers * rows * pitch + 18 });
    const below = layers * rows * pitch - gap + 16;
    for (const { layer, head, curves } of panels) {
      const x = 26 + (head - 1) % columns * (panelWidth + gap), y = top + ((layer - 1) * rows + Math.floor((head - 1) / columns)) * pitch;
      const along = step => x + step / last * panelWidth, up = value => y + (1 - Math.min(1, value)) * panelHeight;
      const ends = curves.map(({ values }) => values.at(-1).toFixed(2)), name = `layer ${layer}, head ${head}`;
      const panel = make("svg:g", { role: "img", "aria-label": `${name}: ${ends.join(", ")}` }, make("svg:title", {}, `${name}: ${ends.join(", ")} at step ${last.toLocaleString("en")}`),
        make("svg:rect", { class: "panel", x, y, width: panelWidth, height: panelHeight }),
        make("svg:line", { class: "grid", x1: x, x2: x + panelWidth, y1: up(.5), y2: up(.5) }),
        make("svg:text", { class: "tick", x, y: y - 5 }, panelWidth > 120 ? name : `${layer} · ${head}`));
      if (ends.length === 1) panel.append(make("svg:text", { class: "tick end", x: x + panelWidth, y: y - 5 }, ends[0]));
      if ((head - 1) % columns === 0) for (const tick of [0, 1]) panel.append(make("svg:text", { class: "tick end", x: x - 6, y: up(tick) + 4 }, `${tick}`));
      for (const { side, steps, values } of curves) panel.append(make("svg:g", { class: `side-${side}` },
        steps.length > 1 ? make("svg:path", { class: "curve", d: pathOf(steps.map((step, i) => [along(step), up(values[i])])) })
          : make("svg:circle", { class: "dot", cx: along(steps[0]), cy: up(values[0]), r: 2.6 })));
      svg.append(panel);
    }
    svg.append(make("svg:text", { class: "tick", x: 26, y: below }, `${panelWidth > 120 ? "" : "layer · head; "}step 0 to ${last.toLocaleString("en")}`));
    return svg;
  };
}

function showHeads(charts) {
  for (const chart of charts) $("heads").append(figure(chart.title, chart.unit, headGrid(chart)));
  for (const each of charts.length ? $("heads").children : []) each.redraw();
}
