/* On the home page, the page of a model takes the place of its picture, in the colours of the site. */
const picture = document.querySelector(".explainer a");
if (picture) {
  const frame = document.createElement("iframe"), frameRoot = () => frame.contentDocument?.documentElement;
  const follow = () => {
    const root = frameRoot();
    if (root) root.dataset.theme = document.body.dataset.mdColorScheme === "slate" ? "dark" : "light";
  };
  Object.assign(frame, { src: picture.href, title: "A model to try", onload() {
    const root = frameRoot(); // none if the site is opened from its folder: the frame then scrolls
    if (!root) return;
    follow();
    root.querySelector("#theme").hidden = true;
    new ResizeObserver(() => { frame.style.height = `${root.querySelector("body").offsetHeight + 2}px`; }).observe(root.querySelector("body"));
  } });
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  picture.replaceWith(frame);
}

/* What Material leaves out for the keyboard and for screen readers. */
addEventListener("load", () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  const sizes = new ResizeObserver(entries => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth, kind = target.matches("code") ? "Code" : "Table";
      if (scrolls) for (const [name, value] of [["tabindex", 0], ["role", "group"], ["aria-label", `${kind}, scrolls sideways`]]) target.setAttribute(name, value);
    }
  });
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) sizes.observe(box);
});
