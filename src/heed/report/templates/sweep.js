const data = JSON.parse($("data").textContent);
const MARKS = { complete: "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z", failed: "M0 -4L4 3L-4 3Z", running: "M0 -4L4 0L0 4L-4 0Z", pruned: "M-3 -3L3 3M-3 3L3 -3" };
const between = (value, [low, high]) => Math.max(low, Math.min(high, value));
const mark = (x, y, { state, faint, name }, score) => make("svg:path", { class: "mark side-0", opacity: faint ? .3 : 1,
  transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, d: MARKS[state] ?? MARKS.running }, make("svg:title", {}, `${name}: ${score}`));

/* Learning curves of trials. Scores beyond the limits are drawn at the edge. */
function trialCurves({ objective, limits, curves }) {
  return width => {
    const steps = curves.flatMap(curve => curve.points.map(([step]) => step));
    const { svg, along, up } = axes(width, 320, { low: 0, high: Math.max(...steps), name: "optimizer step" }, enclosing(...limits, 5));
    for (const curve of curves) {
      const points = curve.points.map(([step, score]) => [along(step), up(between(score, limits))]);
      svg.append(make("svg:path", { class: "curve side-0", opacity: curve.faint ? .3 : 1, d: pathOf(points) }),
        mark(...points.at(-1), curve, short(curve.points.at(-1)[1])));
    }
    svg.setAttribute("aria-label", `${objective} by optimizer step of ${curves.length} trials`);
    return svg;
  };
}

/* The scores of trials by an option. */
function scatter({ name, log, choices, limits, points }) {
  return width => {
    const xs = points.map(point => +point.x), [low, high] = [Math.min(...xs), Math.max(...xs)];
    const margin = high > low ? 0 : Math.abs(low) * .1 || 1, most = Math.max(3, Math.floor((width - 78) / 80));
    const x = choices.length ? { low: -.6, high: choices.length - .4, ticks: choices.map((_, i) => i), format: i => choices[i] }
      : enclosing(low - margin, high + margin, most, log && low > margin);
    const { svg, along, up } = axes(width, 200, x, enclosing(...limits, 5));
    svg.append(...points.map(point => mark(along(+point.x), up(between(point.y, limits)), point, short(point.y))));
    svg.setAttribute("aria-label", `Scores of ${points.length} trials by ${name}`);
    return svg;
  };
}

if (data.curves.limits) $("curves").append(figure(data.curves.objective, "by optimizer step", trialCurves(data.curves)));
if (data.panels.length) $("panels").append(...data.panels.map(panel => figure(panel.name, "", scatter(panel))));
for (const each of document.querySelectorAll("figure")) each.redraw();
