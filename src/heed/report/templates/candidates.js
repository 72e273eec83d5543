/* Candidates for the next piece or word, with their probabilities. */
const share = p => p >= .995 && p < .9995 ? `${(100 * p).toFixed(1)} %` : p >= .095 || p === 0 ? percent(p) : p >= .001 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %";

/* A candidate, as an item of a list; without `choose` it cannot be chosen. */
const candidate = (text, p, isChosen, choose) => make("li", {}, make("button", { class: "candidate", type: "button",
  "aria-pressed": String(isChosen), style: `--p: ${p.toFixed(4)}`, disabled: !choose, onclick: choose ?? false },
  make("b", { dir: "auto" }, text), make("i"), make("span", {}, share(p))));
const remaining = probabilities => make("li", {}, `all others together ${share(Math.max(0, 1 - probabilities.reduce((a, b) => a + b, 0)))}`);
