"""Charts as inline SVG. Their colours come from the page's style sheet, so that they follow light and dark.

Series have the classes s0 to s7 of the style sheet; text and lines have the page's ink. All text is escaped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

COLOURS = 8
"""Number of colours. The ninth series has the first one's again and differs by its tooltip."""

LARGEST = 1.4
"""How many times its size a chart may grow to with the page, so that its text stays as small as the page's text."""


@dataclass(frozen=True)
class Frame:
    """A plotting area of `width` by `height` pixels whose axes run over `x` and `y` (low, high)."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 46
    right: int = 12
    top: int = 12
    bottom: int = 34

    def across(self, value: float) -> float:
        """Horizontal pixel of `value`."""
        low, high = self.x
        return round(self.left + (value - low) / ((high - low) or 1) * (self.width - self.left - self.right), 1)

    def up(self, value: float) -> float:
        """Vertical pixel of `value`; higher values are further up."""
        low, high = self.y
        return round(
            self.height - self.bottom - (value - low) / ((high - low) or 1) * (self.height - self.top - self.bottom), 1
        )


@dataclass(frozen=True)
class Series:
    """A named line of points (x, y); `colour` is a number below COLOURS."""

    name: str
    colour: int
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    """One bar with its interval; no number is NaN."""

    value: float
    low: float
    high: float


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, about `count` of them.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * min((1, 2, 5, 10), key=lambda m: abs(m * size - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(first * step + i * step, 10) + 0.0 for i in range(int((high - first * step) / step + 1e-9) + 1)]


def label(value: float) -> str:
    """The text of a tick, without digits that say nothing."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}".replace("-", "−")


def _svg(frame: Frame, title: str, body: Sequence[str]) -> Markup:
    size = f'viewBox="0 0 {frame.width} {frame.height}" style="max-width:{LARGEST * frame.width:.0f}px"'
    head = f'<svg {size} role="img" aria-label="{escape(title)}">'
    return Markup(head + "".join(body) + "</svg>")  # `_text` escaped every text in `body`


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>'


def _y_axis(frame: Frame) -> list[str]:
    found = []
    for value in ticks(*frame.y, count=4):
        found.append(_line(frame.left, frame.up(value), frame.width - frame.right, frame.up(value), "grid"))
        found.append(_text(frame.left - 6, frame.up(value) + 4, label(value), "end"))
    return found


def _x_axis(frame: Frame, name: str) -> list[str]:
    base = frame.height - frame.bottom
    found = [_text(frame.across(value), base + 15, label(value)) for value in ticks(*frame.x, count=5)]
    found.append(_line(frame.left, base, frame.width - frame.right, base, "axis"))
    return [*found, _text((frame.left + frame.width - frame.right) / 2, frame.height - 4, name, kind="axis-name")]


def bars(groups: Sequence[str], series: Sequence[Sequence[Bar | None]], title: str, room: int = 100) -> Markup:
    """Bars with intervals in groups of `room` pixels; `series[k][g]` is series k's bar in group g, or None."""
    present = [bar for one in series for bar in one if bar is not None]
    top = max([0.0, *(bar.high for bar in present)])
    bottom = min([0.0, *(bar.low for bar in present)])
    frame = Frame(max(420, room * len(groups)), 280, (0, len(groups)), (bottom, top * 1.05 or 1))
    width = 0.82 / max(1, len(series))
    body = _y_axis(frame)
    for g, group in enumerate(groups):
        for k, one in enumerate(series):
            bar = one[g]
            if bar is not None:
                body += _bar(frame, g + 0.09 + k * width, width * 0.9, bar, k % COLOURS)
        body.append(_text(frame.across(g + 0.5), frame.height - 14, group, kind="axis-name"))
    zero = frame.up(0)
    return _svg(frame, title, [*body, _line(frame.left, zero, frame.width - frame.right, zero, "axis")])


def _bar(frame: Frame, start: float, width: float, bar: Bar, series: int) -> list[str]:
    left, right = frame.across(start), frame.across(start + width)
    top, bottom = frame.up(max(bar.value, 0)), frame.up(min(bar.value, 0))
    middle = round((left + right) / 2, 1)
    return [
        f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{bottom - top:.1f}" class="fill s{series}"/>',
        _line(middle, frame.up(bar.low), middle, frame.up(bar.high), "whisker"),
    ]


def curves(series: Sequence[Series], title: str, x_name: str) -> Markup:
    """Lines over x from zero; the y axis covers only the data."""
    points = [point for one in series for point in one.points]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    room = (max(ys) - min(ys)) * 0.06 or 0.5
    frame = Frame(460, 260, (0, max(xs)), (min(ys) - room, max(ys) + room), right=22)
    body = [*_y_axis(frame), *_x_axis(frame, x_name)]
    for one in series:
        path = " ".join(f"{frame.across(x)},{frame.up(y)}" for x, y in one.points)
        body.append(
            f'<polyline points="{path}" class="curve s{one.colour}"><title>{escape(one.name)}</title></polyline>'
        )
        x, y = one.points[-1]
        body.append(f'<circle cx="{frame.across(x)}" cy="{frame.up(y)}" r="3" class="fill s{one.colour}"/>')
    return _svg(frame, title, body)


def histogram(edges: Sequence[float], shares: Sequence[float], title: str) -> Markup:
    """One distribution as small touching columns: `shares` (bins,) between `edges` (bins + 1,)."""
    frame = Frame(240, 120, (edges[0], edges[-1]), (0, max(shares) or 1), left=8, right=8, top=6, bottom=20)
    body = [
        f'<rect x="{frame.across(low)}" y="{frame.up(share)}" class="fill s0" '
        f'width="{max(0.5, frame.across(high) - frame.across(low) - 0.6):.1f}" '
        f'height="{frame.up(0) - frame.up(share):.1f}"/>'
        for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True)
        if share > 0
    ]
    base = frame.up(0)
    body.append(_line(frame.left, base, frame.width - frame.right, base, "axis"))
    anchors = {edges[0]: "start", edges[-1]: "end"}
    for value in ticks(edges[0], edges[-1], 3):
        body.append(_text(frame.across(value), base + 14, label(value), anchors.get(value, "middle")))
    return _svg(frame, title, body)


def scatter(points: Sequence[tuple[float, float]], trend: Sequence[tuple[float, float]], title: str) -> Markup:
    """Human score (x) against metric score (y), with `trend` as a line."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    frame = Frame(460, 340, (min(xs), max(xs)), (min(ys), max(ys)))
    body = [*_y_axis(frame), *_x_axis(frame, "human score")]
    body += [f'<circle cx="{frame.across(x)}" cy="{frame.up(y)}" r="2" class="dot s0"/>' for x, y in points]
    path = " ".join(f"{frame.across(x)},{frame.up(y)}" for x, y in trend)
    return _svg(frame, title, [*body, f'<polyline points="{path}" class="curve s1"/>'])
