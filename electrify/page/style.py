"""The one style sheet of every page: light and dark, wide and narrow, screen and paper."""

CSS = """
:root {
  color-scheme: light dark;
  --ink: #1c2024; --soft: #5b6570; --paper: #ffffff; --panel: #f5f6f8; --line: #d9dde2;
  --link: #0b5cad; --mark: 213 94 0; --share: 0 114 178;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #cc79a7;
  --series-4: #e69f00; --series-5: #56b4e9;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e8eb; --soft: #9aa4af; --paper: #15181c; --panel: #1e2228; --line: #363c44;
    --link: #7db8f0; --mark: 255 128 64; --share: 79 159 224;
    --series-0: #4f9fe0; --series-1: #ff8a4c; --series-2: #35c797; --series-3: #e39ac4;
    --series-4: #f2bd42; --series-5: #9bd6ff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55; font-size: 16px;
  font-family: "Pretendard", "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo",
    "Malgun Gothic", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0 .25rem; }
h2 {
  font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-top: .75rem;
  border-top: 1px solid var(--line); break-after: avoid;
}
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; break-after: avoid; }
h4 { font-size: 1rem; margin: 1.5rem 0 .5rem; break-after: avoid; }
p { margin: .5rem 0; max-width: 75ch; overflow-wrap: anywhere; }
.subtitle { color: var(--soft); }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; font-size: .92rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption {
  text-align: left; color: var(--soft); padding: 0 0 .4rem;
  width: max-content; max-width: min(85vw, 48rem);
}
th, td { padding: .35rem .75rem; text-align: left; vertical-align: top; }
td { border-top: 1px solid var(--line); min-width: 3.5rem; max-width: 34rem; }
th { font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { padding-left: .25rem; }
.num { text-align: right; white-space: nowrap; }
td.short { white-space: nowrap; }
td.long { min-width: 12rem; }
tbody tr:hover { background: var(--panel); }
.plots { display: flex; flex-wrap: wrap; gap: 1.5rem; margin: 1rem 0; align-items: flex-start; }
figure { margin: 0; width: 508px; max-width: 100%; break-inside: avoid; }
figcaption { font-weight: 600; font-size: .95rem; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .85rem; margin: .25rem 0; }
.legend i {
  display: inline-block; width: 1.3em; border-top: .35em solid; margin-right: .4em;
  vertical-align: middle;
}
.legend b { margin-right: .4em; }
svg { display: block; width: 100%; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
.matrix td, .matrix thead th { text-align: right; white-space: nowrap; min-width: 3rem; }
.matrix td {
  background: rgb(var(--share) / calc(var(--p) * .55)); border: 1px solid var(--line);
  print-color-adjust: exact; -webkit-print-color-adjust: exact;
}
.matrix tbody th { white-space: nowrap; vertical-align: top; }
.samples { margin: .5rem 0; }
.samples dt { color: var(--soft); font-size: .85rem; margin-top: .9rem; }
.samples dd {
  margin: .2rem 0 0; padding: .6rem .8rem; background: var(--panel); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 18rem; overflow-y: auto;
}
.compact {
  display: grid; grid-template-columns: minmax(4.5rem, max-content) 1fr; gap: .25rem .6rem;
}
.compact dt { margin: 0; padding-top: .2rem; }
.compact dd { margin: 0; padding: .15rem .6rem; min-width: 0; }
.tokens { max-width: none; line-height: 1.2; }
.token {
  display: inline-flex; flex-direction: column; align-items: center; margin: .15rem .05rem;
  padding: .2rem .4rem; border-radius: 5px; border: 2px solid transparent;
  background: rgb(var(--mark) / calc(var(--p) * .6)); unicode-bidi: isolate;
}
.token b { font-weight: 500; white-space: pre-wrap; overflow-wrap: anywhere; }
.token small { font-size: .72rem; color: var(--ink); opacity: .8; }
.replaced { border-color: var(--ink); }
.replaced b { font-weight: 700; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--link); }
.folded { padding-left: .75rem; border-left: 2px solid var(--line); }
pre {
  background: var(--panel); border-radius: 6px; padding: .75rem; overflow-x: auto;
  font: .82rem/1.5 ui-monospace, "D2Coding", "Noto Sans Mono CJK KR", monospace;
}
@media (max-width: 600px) {
  main { padding: .75rem .9rem 3rem; }
  h1 { font-size: 1.4rem; }
  th, td { padding: .3rem .5rem; }
  .folded { padding-left: .35rem; }
}
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  .scroll, .samples dd, pre { overflow: visible; max-height: none; }
  pre { white-space: pre-wrap; }
  details:not(.fold)::details-content { content-visibility: visible; block-size: auto; }
  table { font-size: 8pt; }
  th, td { padding: .2rem .35rem; }
  .num, td.short { white-space: normal; }
  .folded { padding-left: 0; border: 0; }
  figure { width: 47%; }
  tr { break-inside: avoid; }
  .token { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
