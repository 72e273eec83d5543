/* Elements of pages that scripts build. */
"use strict";
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && typeof value === "function") element[name] = value;
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/* Wide content, inside a region that scrolls sideways and that the keyboard can reach. */
const scroll = (name, ...children) => make("div", { class: "scroll", role: "region", "aria-label": name, tabindex: 0 },
  ...children, make("p", { class: "hint", "aria-hidden": "true" }, "scroll sideways →"));

/* The button for the colours of the page. */
const THEMES = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" };
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  $("theme").textContent = THEMES[theme];
  $("theme").setAttribute("aria-label", `Colours: ${theme}`);
  const names = Object.keys(THEMES), next = names[(names.indexOf(theme) + 1) % names.length];
  $("theme").onclick = () => setTheme(next);
}
if ($("theme")) setTheme("auto");
