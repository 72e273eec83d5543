"""The style sheet of the pages: light and dark theme, screen and print."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fdfcfa; --ink: #1d1f24; --soft: #666b75; --rule: #e2dfd8; --panel: #f5f3ee; --warn: #8a5a00;
    --warn-bg: #fdf3dc;
  --c0: #1f6fb2; --c1: #c8501e; --c2: #2e8b57; --c3: #8e4bb3; --c4: #a87800; --c5: #c23a6b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e8e6e1; --soft: #9aa0ab; --rule: #2d3138; --panel: #1d2026; --warn: #f0c36a;
    --warn-bg: #2b2413;
    --c0: #6cb4f0; --c1: #f58b5a; --c2: #6fcf97; --c3: #c99ae8; --c4: #e0b84a; --c5: #f285ab;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "Helvetica Neue", sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font: 600 30px/1.3 Charter, "Iowan Old Style", Georgia, "Noto Serif", serif; margin: 8px 0 18px;
  text-wrap: balance; }
h2 { font: 600 21px/1.3 Charter, "Iowan Old Style", Georgia, "Noto Serif", serif; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
h3 small { font-weight: 400; margin-left: 6px; }
small, .kicker, .line, section > p { color: var(--soft); }
section > p { margin: 0 0 14px; max-width: 66ch; }
.kicker { font-size: 13px; letter-spacing: .04em; margin: 0; }
.verdict { font-size: 18px; margin: 6px 0; }
.warnings { list-style: none; margin: 20px 0 0; padding: 12px 18px; background: var(--warn-bg); color: var(--warn);
  border-left: 3px solid var(--warn); border-radius: 0 6px 6px 0; font-size: 15px; }
section, footer { margin-top: 44px; padding-top: 22px; border-top: 1px solid var(--rule); }
.wide { overflow-x: auto; margin-top: 14px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 6px 14px 6px 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 500; } thead th { color: var(--soft); font-size: 13px; vertical-align: bottom; }
.sign { color: var(--soft); text-align: right; padding-right: 0; } .unequal .sign { color: var(--warn);
  font-weight: 700; }
.none { color: var(--soft); } .health th { max-width: 240px; } td small { overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12.5px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: var(--ink);
  font-variant-numeric: tabular-nums; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .tick, svg .note { fill: var(--soft); font-size: 11px; }
.grid, .rule { stroke: var(--rule); } .line { stroke: var(--soft); stroke-dasharray: 4 3; fill: none; }
.plot g { --own: var(--ink); } .plot circle { fill: var(--own); } .plot .other { opacity: .55; }
.plot .interval { stroke: var(--own); stroke-width: 1.6; fill: none; }
.plot .only { --own: var(--soft); } .plot .only text { fill: var(--soft); font-size: 11px; }
.plot g.side-0, .side-0 { --own: var(--c0); } .plot g.side-1, .side-1 { --own: var(--c1); }
.plot g.side-2, .side-2 { --own: var(--c2); } .plot g.side-3, .side-3 { --own: var(--c3); }
.plot g.side-4, .side-4 { --own: var(--c4); } .plot g.side-5, .side-5 { --own: var(--c5); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 6px 22px; padding: 0; margin: 0; font-size: 14px; }
.legend li::before { content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 50%;
  margin-right: 8px;
  background: var(--own); }
article { margin: 18px 0; padding: 16px 20px; background: var(--panel); border-radius: 8px; }
article p { margin: 0 0 4px; } .line { font-size: 13px; } .source { font-weight: 600; }
.reference { color: var(--soft); }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 14px 28px;
  margin-top: 12px; }
.side { border-left: 3px solid var(--own); padding-left: 12px; min-width: 0; }
.who { color: var(--own); font-weight: 600; font-size: 14px; }
.map { margin-top: 10px; } .map text { font-size: 11px; } .map rect { width: 15px; height: 15px; fill: var(--own); }
.frame { fill: none; stroke: var(--rule); }
code { font-size: 12.5px; overflow-wrap: anywhere; } footer { font-size: 14px; color: var(--soft); }
@media print {
  :root { color-scheme: light;
    --paper: #fff; --ink: #000; --soft: #555; --rule: #ccc; --panel: #fff; --warn: #6b4500; --warn-bg: #fff;
    --c0: #1f6fb2; --c1: #c8501e; --c2: #2e8b57; --c3: #8e4bb3; --c4: #a87800; --c5: #c23a6b; }
  main { max-width: none; padding: 0; } body { font-size: 11pt; }
  article, figure, svg, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  article { border: 1px solid var(--rule); }
}
"""
