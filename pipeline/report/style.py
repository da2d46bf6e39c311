"""The page's style sheet: system fonts, figures that line up, light and dark from the reader's settings."""

STYLE = """
:root{--ink:#1b1f24;--dim:#5d6673;--page:#fdfdfc;--card:#ffffff;--line:#e1e4e8;--grid:#eceef1;--soft:#f3f6fb;
--warn:#fff6df;--warn-line:#e0b441;--s0:#2459c9;--s1:#d9730d;--s2:#14866d;--s3:#8a4bbf;--s4:#8b939e;--s5:#c2385a;
--s6:#5a8a0a;--s7:#0a7ea4}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#99a3b0;--page:#14171b;--card:#1b1f25;--line:#323943;
--grid:#272d35;--soft:#1f2937;--warn:#2e2715;--warn-line:#8f7424;--s0:#7aa5ff;--s1:#f0a04b;--s2:#4cc3a5;--s3:#c39af0;
--s4:#8c95a1;--s5:#f27d9a;--s6:#a5cf57;--s7:#56c1e0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
header,main{max-width:1060px;margin:0 auto;padding:0 20px}
header{padding-top:36px}
h1{font-size:2rem;line-height:1.15;margin:0 0 8px;letter-spacing:-.02em}
h2{font-size:1.35rem;margin:0 0 6px;letter-spacing:-.01em}
h3{font-size:1.08rem;margin:34px 0 8px}
h4{font-size:.95rem;margin:22px 0 6px}
p{margin:0 0 10px;max-width:72ch}
.eyebrow{font-size:.8rem;text-transform:uppercase;letter-spacing:.09em;color:var(--dim);margin-bottom:4px}
.lead{font-size:1.1rem}
.dim{color:var(--dim)}
.note,figcaption{font-size:.85rem;color:var(--dim)}
.note{margin-top:8px}
.notice{background:var(--warn);border-left:4px solid var(--warn-line);padding:10px 14px;border-radius:4px;margin:14px 0}
section{border-top:1px solid var(--line);margin-top:36px;padding-top:26px}
main>section:last-child{margin-bottom:60px}
code{font:.86em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:0 0 6px}
table{border-collapse:collapse;font-size:.92rem;min-width:40%}
th,td{padding:6px 12px 6px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{padding-left:8px}
thead th{font-weight:600;color:var(--dim);font-size:.82rem;vertical-align:bottom;white-space:nowrap}
tbody th{font-weight:500;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;padding-left:10px}
td.n small{display:block;color:var(--dim);font-size:.74rem;font-weight:400}
tr.primary{background:var(--soft)}
tr.primary th,.headline tr.primary td,.best{font-weight:700}
.tight{font-size:.84rem}
.tight th,.tight td{padding-right:8px;padding-left:4px}
.headline{width:100%}
.headline .chart{width:32%;min-width:150px;padding:6px 14px}
.track{position:relative;display:block;height:20px;color:var(--s4)}
.track.ours{color:var(--s0)}
.track i{position:absolute;top:9px;height:3px;background:currentColor;opacity:.55;border-radius:2px}
.track b{position:absolute;top:5px;width:11px;height:11px;margin-left:-5px;border-radius:50%;background:currentColor}
.texts{width:100%}
.texts p{margin:0 0 4px;max-width:68ch;overflow-wrap:anywhere}
.texts td{min-width:70px}
figure{margin:10px 0 0}
svg{display:block;width:100%;height:auto}
.wide svg{min-width:620px}
.half{max-width:560px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:18px 22px}
.pairs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(380px,100%),1fr));gap:20px 28px;margin-bottom:14px}
.grid figcaption b{overflow-wrap:anywhere;color:var(--ink);font-weight:600}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:6px 0;padding:0;font-size:.85rem}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;background:var(--c)}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}
.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}
.fill{fill:var(--c)}
.dot{fill:var(--c);opacity:.35}
.curve{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}

line.grid{stroke:var(--grid);stroke-width:1}
line.axis{stroke:var(--dim);stroke-width:1}
line.whisker{stroke:var(--ink);stroke-width:1.2;opacity:.75}
text{font-family:inherit;fill:var(--dim)}
.tick{font-size:11px}
.axis-name{font-size:12px}
details{border-bottom:1px solid var(--line);padding:6px 0}
summary{cursor:pointer;font-weight:500}
@media (max-width:600px){body{font-size:15px}h1{font-size:1.6rem}.headline .chart{min-width:110px}
th,td{padding-right:8px}}
@media print{details{display:block}.scroll{overflow:visible}}
"""
