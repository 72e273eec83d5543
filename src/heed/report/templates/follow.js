/* Under `heed report --serve`: load the page again when it has changed, unless the reader is busy with it. */
if (location.protocol.startsWith("http")) {
  let known, busy = 0;
  for (const event of ["pointerdown", "keydown", "input"]) addEventListener(event, () => { busy = Date.now(); });
  const look = async () => {
    if (known && (document.hidden || Date.now() - busy < 4000 || !getSelection().isCollapsed)) return;
    try {
      const tag = (await fetch(location.pathname, { method: "HEAD", cache: "no-store" })).headers.get("ETag");
      if (known && tag && tag !== known) location.reload();
      known ??= tag;
    } catch { /* the server has been stopped */ }
  };
  look();
  setInterval(look, 5000);
  if (location.pathname !== "/") {
    const back = document.createElement("a");
    back.href = "/";
    back.textContent = "← all runs";
    document.querySelector(".kicker").append(" ", back);
  }
}
