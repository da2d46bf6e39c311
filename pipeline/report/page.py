"""Pages as HTML: Jinja templates that extend one base, and how pages write numbers.

A page is one file: its style stands inside it and it loads nothing when it opens, neither script nor font nor image.
Jinja escapes every text that comes from data. If a template uses a name that was not given, that is an error.
"""

import functools
from pathlib import Path
from typing import Any

import jinja2

TEMPLATES = Path(__file__).parent / "templates"
"""Templates `NAME.html.jinja` and the style sheet that the base puts into every page."""


def render(name: str, **content: Any) -> str:
    """The page of the template `name` ("report", "run", "studies", "explain") with the variables `content`."""
    return _environment().get_template(f"{name}.html.jinja").render(**content)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(signed=signed, p_text=p_text, duration=duration)
    return environment


def signed(value: float | None) -> str:
    """A difference times 100 with its sign; "undefined" for None.

    >>> signed(0.0123), signed(-0.004), signed(None)
    ('+1.2', '−0.4', 'undefined')
    """
    return "undefined" if value is None else f"{100 * value:+.1f}".replace("-", "−")


def p_text(value: float | None) -> str:
    """A p-value to three digits; "undefined" for None.

    >>> p_text(0.0004), p_text(0.0312)
    ('p < 0.001', 'p = 0.031')
    """
    if value is None:
        return "undefined"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them; "unknown" for None.

    >>> duration(75.4), duration(3700)
    ('1 min 15 s', '1 h 1 min')
    """
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
