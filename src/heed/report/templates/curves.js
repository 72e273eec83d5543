/* Learning curves by step, tokens or time. */

const memory = key => `heed ${location.pathname} ${key}`;   // what the reader chose stays when the page is loaded again
const remembered = (key, otherwise) => { try { return sessionStorage.getItem(memory(key)) ?? otherwise; } catch { return otherwise; } };
const remember = (key, value) => { try { sessionStorage.setItem(memory(key), value); } catch { /* a browser that keeps nothing */ } };

/* The tokens or seconds up to a step, between those that are known. */
function interpolate(step, steps, values) {
  let i = steps.findIndex(each => each >= step);
  if (i < 0) i = steps.length - 1;
  const [x0, y0] = i ? [steps[i - 1], values[i - 1]] : [0, 0];
  return steps[i] === x0 ? values[i] : y0 + (step - x0) / (steps[i] - x0) * (values[i] - y0);
}

/* Draw charts into the element "curves", and the choice of their axis into "axes". A chart: {title, unit, wide, reference, curves};
   a curve: {name, side, steps, values, clock}, where the clock has steps, and the tokens and seconds up to each of them. */
function showCurves(charts) {
  charts = charts.filter(({ curves }) => curves.length);
  const clocks = charts.flatMap(({ curves }) => curves.map(({ clock }) => clock)), timed = clocks.length && clocks.every(([steps]) => steps.length);
  const longest = Math.max(0, ...clocks.map(([, , seconds]) => seconds.at(-1) ?? 0));
  const [unit, per] = longest > 7200 ? ["hours", 3600] : longest > 120 ? ["minutes", 60] : ["seconds", 1];
  const axes = {
    steps: { name: "step", of: step => step, format: value => value.toLocaleString("en") },
    tokens: { name: "tokens", of: (step, [steps, tokens]) => interpolate(step, steps, tokens), format: short },
    time: { name: unit, of: (step, [steps, , seconds]) => interpolate(step, steps, seconds) / per, format: value => `${+value.toPrecision(3)}` },
  };
  function draw(axis) {
    const x = axes[axis];
    $("curves").replaceChildren(...charts.map(({ title, unit, wide, reference, curves }) => figure(title, unit, lineChart({
      title, x, wide, reference: reference && x.of(reference, curves[0].clock),
      curves: curves.map(({ name, side, steps, values, clock }) => ({ name, side, x: steps.map(step => x.of(step, clock)), y: values })),
    }))));
    for (const each of $("curves").children) each.redraw();
  }
  const axis = timed && axes[remembered("axis", "steps")] ? remembered("axis", "steps") : "steps";
  for (const name of timed ? Object.keys(axes) : []) $("axes").append(make("label", {}, make("input", { type: "radio", name: "axis", value: name,
    class: "visually-hidden", checked: name === axis, onchange: () => { remember("axis", name); draw(name); } }), name));
  $("axes").hidden = !timed;
  draw(axis);
}
