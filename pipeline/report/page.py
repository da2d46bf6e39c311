"""The page: an HTML template with its style, in one module so that the report's code is all Python (law 2).

Nothing is fetched when it opens: no script, no font, no image. Jinja escapes every text that comes from data.
"""

from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.report.style import STYLE
from pipeline.report.views import p_text

TEMPLATE = """
{%- macro legend(entries) -%}
<ul class="legend">{% for name, colour in entries %}<li><i class="s{{ colour }}"></i>{{ name }}</li>{% endfor %}</ul>
{%- endmacro -%}
{%- macro versus(records, heading) -%}
{% if records %}
<h4>{{ heading }}</h4>
<div class="scroll"><table>
<thead><tr><th>metric</th><th>against</th><th class="n">difference of Kendall × 100</th><th class="n">interval</th>
<th class="n">permutation test</th></tr></thead>
<tbody>{% for r in records %}<tr><th>{{ r.metric }}</th><td>{{ r.against }}</td>
<td class="n">{{ signed(r.difference) }}</td><td class="n dim">{{ signed(r.low) }} to {{ signed(r.high) }}</td>
<td class="n">{{ p_text(r.p_value) }}</td></tr>{% endfor %}</tbody></table></div>
{% endif %}
{%- endmacro -%}
{%- macro disagreements(rows, heading) -%}
<h4>{{ heading }}</h4>
{% if rows %}<div class="scroll"><table class="texts">
<thead><tr><th>pair</th><th>reference, then candidate</th><th class="n">people</th><th class="n">metric</th>
</tr></thead>
<tbody>{% for d in rows %}<tr><td>{{ d.language_pair }}<br><span class="dim">{{ d.system }}</span></td>
<td><p class="dim">{{ d.reference }}</p><p>{{ d.candidate or "(empty)" }}</p></td>
<td class="n">{{ "%.0f"|format(d.human) }}</td><td class="n">{{ "%.0f"|format(d.metric) }}</td></tr>{% endfor %}
</tbody></table></div>{% else %}<p class="dim">None.</p>{% endif %}
{%- endmacro -%}
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Metric report, profile {{ found.profile }}</title>
<style>{{ style }}</style></head><body>
<header><p class="eyebrow">Learned metric · agreement with people</p>
<h1>Benchmark report</h1>
<p class="dim">Profile <b>{{ found.profile }}</b>{% if found.commit %} · commit <code>{{ found.commit[:12] }}</code>
{{- found.commit[40:] }}{% endif %} · {{ machine.processor }}, {{ machine.cores }} cores, {{ machine.device }}</p>
{% if demonstration %}<p class="notice"><b>Demonstration, not evidence.</b> {{ demonstration|join(" ") }} The numbers
show that the whole pipeline works, not how good a metric can be. The profile <code>local</code> gives numbers on
published benchmarks.</p>{% endif %}
{% if found.missing %}<p class="notice"><b>Not everything has run.</b> Absent, and left out below:
{{ found.missing|join("; ") }}.</p>{% endif %}
</header>
<main>
{% if not benchmarks %}<section><h2>Agreement with people</h2><p>Nothing was evaluated.</p></section>{% endif %}
{% for b in benchmarks %}
<section><h2>{{ b.name }}</h2>
<p class="lead">{{ b.summary }}</p>
<div class="scroll"><table class="headline">
<thead><tr><th>metric</th><th class="chart">Kendall and its interval</th>
{% for s in b.statistics %}<th class="n">{{ s }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in b.headline %}<tr{% if row.primary %} class="primary"{% endif %}><th>{{ row.metric }}</th>
<td class="chart">{% if row.drawn %}<span class="track{% if row.trained %} ours{% endif %}">
<i style="left:{{ row.drawn.start }}%;width:{{ row.drawn.width }}%"></i><b style="left:{{ row.drawn.dot }}%"></b>
</span>{% endif %}</td>
{% for cell in row.cells %}<td class="n">{% if cell %}{{ cell.text }}<small>{{ cell.range }}</small>{% endif %}</td>
{% endfor %}</tr>{% endfor %}</tbody></table></div>
<p class="note">All numbers × 100, average over {{ b.pairs }},
{{ "{:,}".format(b.mark.rows) }} rated segments; higher is better. Kendall is tau-b. Intervals:
{{ "%.0f"|format(100 * settings.confidence) }}%, {{ settings.resamples }} bootstrap resamples of segments within each
language pair.{% if b.left_out %} Left out of the averages: {{ b.left_out|join("; ") }}.{% endif %}</p>
{{ versus(b.gains, "What pre-training adds") }}
{{ versus(b.rivals, "Against the best baseline") }}
{% if b.gains or b.rivals %}<p class="note">Two-sided paired permutation test, {{ settings.permutations }} permutations
of segments; intervals by paired bootstrap. Each p-value stands alone: nothing corrects for their number, and the best
baseline was chosen on these rows.</p>{% endif %}
<h3>By language pair</h3>
{% if b.bars.chart %}<figure>{{ legend(b.bars.legend) }}<div class="scroll wide">{{ b.bars.chart }}</div>
<figcaption>Kendall τ-b × 100 with intervals.</figcaption></figure>{% endif %}
{% for t in b.tables %}<details{% if t.open %} open{% endif %}><summary>{{ t.name }} × 100</summary>
<div class="scroll"><table><thead><tr><th>metric</th>{% for c in t.columns %}<th class="n">{{ c }}</th>{% endfor %}
</tr></thead>
<tbody>{% for row in t.rows %}<tr{% if row.primary %} class="primary"{% endif %}><th>{{ row.metric }}</th>
{% for cell, best in row.cells %}<td class="n{% if best %} best{% endif %}">{% if cell %}{{ cell.text }}
<small>{{ cell.range }}</small>
{% else %}–{% endif %}</td>{% endfor %}</tr>{% endfor %}
<tr class="dim"><th>count</th>{% for c in t.columns %}<td class="n">{{ t.counts[c] }}</td>
{% endfor %}</tr>
</tbody></table></div></details>{% endfor %}
{% if b.published %}<h3>Published numbers, for reference</h3>
<p class="notice"><b>Other people’s results.</b> {{ b.published.heading }}: Kendall / {{ b.published.second }} × 100.
Their BLEURT is BERT-base or BERT-large, pre-trained for 800,000 steps: these rows show what is possible, not what the
numbers above are measured against.</p>
<div class="scroll"><table class="tight"><thead><tr><th>metric</th>
{% for c in b.published.language_pairs %}<th class="n">{{ c }}</th>
{% endfor %}</tr></thead><tbody>{% for metric, cells in b.published.rows %}<tr><th>{{ metric }}</th>
{% for cell in cells %}<td class="n">{% if cell %}{{ "%.1f"|format(100 * cell.kendall) }} /
{{ "%.1f"|format(100 * cell.second) }}{% else %}–{% endif %}</td>{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% endif %}
{% if b.scatter %}<h3>Calibration</h3>
<figure class="half">{{ b.scatter }}<figcaption>{{ b.mark.primary }}: human score (across) against metric score (up),
{{ b.shown }} of {{ b.mark.all_rows }} rows; the line joins the means of at most ten groups of about equal size.
</figcaption></figure>
{% endif %}
<h3>Worst disagreements with people</h3>
{% if b.mark.primary %}<p class="note">Places run from 0 (lowest of the language pair) to 100 (highest), by people and
by
{{ b.mark.primary }}.</p>
{{ disagreements(b.too_high, "The metric is too kind") }}
{{ disagreements(b.too_low, "The metric is too harsh") }}{% else %}<p class="dim">No trained metric.</p>{% endif %}
</section>
{% endfor %}
<section><h2>Rows at each step</h2>
{% if found.counts %}<div class="scroll"><table><thead><tr><th>stage</th><th class="n">in</th><th class="n">out</th>
<th class="n">dropped</th><th>why</th></tr></thead><tbody>{% for c in found.counts %}<tr><th>{{ c.stage }}</th>
<td class="n">{{ "{:,}".format(c.rows_in) }}</td><td class="n">{{ "{:,}".format(c.rows_out) }}</td>
<td class="n">{{ "{:,}".format(c.dropped.values()|sum) }}</td><td>{% for reason, count in c.dropped.items() %}
{{ reason }}: {{ "{:,}".format(count) }}{{ "; " if not loop.last }}{% endfor %}</td></tr>{% endfor %}</tbody>
</table></div>
<p class="note">Every row is accounted for: in = out + dropped.</p>{% else %}<p class="dim">No stage left counts.</p>
{% endif %}
{% if techniques %}<h3>Synthetic pairs by technique</h3>
<div class="scroll"><table class="texts"><thead><tr><th>technique</th><th class="n">pairs</th><th>example: reference,
then
candidate</th></tr></thead><tbody>{% for t in techniques %}<tr><th>{{ t.name }}</th>
<td class="n">{{ "{:,}".format(t.pairs) }}</td>
<td><p class="dim">{{ t.reference }}</p><p>{{ t.candidate }}</p></td></tr>
{% endfor %}</tbody></table></div>{% endif %}
</section>
{% if signals %}<section><h2>Pre-training signals</h2>
<div class="grid">{% for s in signals %}<figure><figcaption><b>{{ s.name }}</b><br>mean
{{ "%.3f"|format(s.histogram.mean) }} · {{ "{:,}".format(s.histogram.rows) }} pairs</figcaption>{{ s.chart }}</figure>
{% endfor %}</div>
<p class="note">Share of pairs in equal bins. Likelihoods are mean log P per token, in nats; all others lie in 0 to 1,
or
below 0 for BERTScore on unlike texts.</p></section>{% endif %}
<section><h2>Training</h2>
{% if found.trainings %}<div class="pairs">{% for c in curves %}<figure><figcaption><b>{{ c.title }}</b></figcaption>
{{ legend(c.legend) }}{{ c.chart }}</figure>{% endfor %}</div>
{% if curves %}<p class="note">Pre-training losses of different variants add up different tasks and do not
compare.</p>{% endif %}
<div class="scroll"><table><thead><tr><th>run</th><th class="n">pairs</th><th class="n">pairs seen</th>
<th class="n">best step</th><th class="n">best validation</th><th class="n">padding</th><th class="n">time</th>
<th>device</th></tr></thead>
<tbody>{% for t in found.trainings %}<tr><th>{{ t.stage }} {{ t.variant }}</th>
<td class="n">{{ "{:,}".format(t.facts.pairs or 0) }}</td><td class="n">{{ "{:,}".format(t.facts.rows_seen or 0) }}</td>
<td class="n">{{ "{:,}".format(t.facts.best_step or 0) }}</td>
<td class="n">{% if t.facts.best_validation is number %}{{ "%.3f"|format(t.facts.best_validation) }}{% endif %}</td>
<td class="n">{% if t.facts.padding_share is number %}{{ "%.1f"|format(100 * t.facts.padding_share) }}%{% endif %}</td>
<td class="n">{{ duration(t.facts.seconds) }}</td><td>{{ t.facts.device }}, {{ t.facts.precision }}</td></tr>
{% endfor %}</tbody></table></div>
<p class="note">Validation is minus the loss in pre-training and Kendall τ-b in fine-tuning; the checkpoint with the
best
one is kept. Padding is its share of the training tokens.</p>{% else %}<p class="dim">No training run was found.</p>
{% endif %}
</section>
{% if found.costs %}<section><h2>Where the time went</h2>
<div class="scroll"><table><thead><tr><th>stage</th><th class="n">time</th><th class="n">processor time</th>
<th class="n">largest process</th></tr></thead><tbody>{% for c in found.costs %}<tr><th>{{ c.stage }}</th>
<td class="n">{{ duration(c.seconds) }}</td><td class="n">{{ duration(c.cpu_seconds) }}</td>
<td class="n">{{ "{:,.0f}".format(c.peak_bytes / 2**20) }} MiB</td></tr>{% endfor %}
<tr><th>together</th><td class="n">{{ duration(found.costs|sum(attribute="seconds")) }}</td>
<td class="n">{{ duration(found.costs|sum(attribute="cpu_seconds")) }}</td><td></td></tr></tbody></table></div>
<p class="note">Each stage's last finished run on this machine; one that went on after a kill counts from there. Stages
that DVC took from its cache are not shown.</p></section>{% endif %}
<section><h2>How it was made</h2>
{% if signatures %}<h3>Metrics</h3><div class="scroll"><table><tbody>{% for name, text in signatures.items() %}<tr>
<th>{{ name }}</th><td><code>{{ text }}</code></td></tr>{% endfor %}</tbody></table></div>{% endif %}
<h3>Machine and versions</h3><div class="scroll"><table><tbody>
{% for key in ("processor", "machine", "cores", "device", "python") %}<tr><th>{{ key }}</th>
<td>{{ machine[key] }}</td></tr>
{% endfor %}{% for name, version in machine.packages.items() %}<tr><th>{{ name }}</th><td>{{ version }}</td></tr>
{% endfor %}
</tbody></table></div>
<h3>Parameters of the profile {{ found.profile }}</h3>
{% for stage, values in found.params.items() if values %}<details><summary>{{ stage }}</summary>
<div class="scroll"><table><tbody>{% for key, value in values.items() %}<tr><th>{{ key }}</th>
<td><code>{{ value }}</code>
</td></tr>{% endfor %}</tbody></table></div></details>{% endfor %}
</section></main></body></html>
"""


def signed(value: float | None) -> str:
    """A difference times 100 with its sign.

    >>> signed(0.0123), signed(-0.004), signed(None)
    ('+1.2', '−0.4', 'undefined')
    """
    return "undefined" if value is None else f"{100 * value:+.1f}".replace("-", "−")


def render(content: dict[str, Any], template: str = TEMPLATE) -> str:
    """A whole page as HTML: the report, of `content.page_content`'s variables, or another `template` in its style."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.globals.update(signed=signed, p_text=p_text)
    style = Markup(STYLE)  # our own constant
    return environment.from_string(template.lstrip()).render(style=style, **content)
