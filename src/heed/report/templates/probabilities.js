/* Words with their probabilities, and candidates for the next piece or word. */
const share = p => p >= .995 && p < .9995 ? `${(100 * p).toFixed(1)} %` : p >= .095 || p === 0 ? percent(p) : p >= .001 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %";

/* A candidate, as an item of a list; without `choose` it cannot be chosen. */
const candidate = (text, p, isChosen, choose) => make("li", {}, make("button", { class: "candidate", type: "button",
  "aria-pressed": String(isChosen), style: `--p: ${p.toFixed(4)}`, disabled: !choose, onclick: choose ?? false },
  make("b", { dir: "auto" }, text), make("i"), make("span", {}, share(p))));
const remaining = probabilities => make("li", {}, `all others together ${share(Math.max(0, 1 - probabilities.reduce((a, b) => a + b, 0)))}`);

/* A line below a word, which is darker the less sure the model is of the word; p null: none. */
function shadeWord(element, p) {
  element.style.setProperty("--doubt", p === null ? "0%" : `${Math.round(100 * (1 - p))}%`);
  if (p === null) delete element.dataset.p; else element.dataset.p = share(p);
}

/* Arrow keys go from word to word; one of them is a tab stop. */
function moveAmongWords(event, words) {
  const index = words.indexOf(event.target), on = isRightToLeft(event.target) ? -1 : 1;
  const goal = { ArrowLeft: index - on, ArrowRight: index + on, Home: 0, End: words.length - 1 }[event.key];
  if (words[goal] === undefined) return;
  event.preventDefault();
  for (const word of words) word.tabIndex = -1;
  words[goal].tabIndex = 0;
  words[goal].focus();
}
