"""Templates: found where the package lies, one base for all, escaped, and nothing undefined is passed over."""

import importlib.resources

import jinja2
import pytest

from pipeline.report.page import TEMPLATES, render

PAGES = ("explain", "report", "run", "studies")


def test_templates_and_style_lie_in_the_package() -> None:
    folder = importlib.resources.files("pipeline.report") / "templates"
    names = {"base.html.jinja", "macros.html.jinja", "style.css", *(f"{page}.html.jinja" for page in PAGES)}
    assert {file.name for file in folder.iterdir()} == {file.name for file in TEMPLATES.iterdir()} == names


@pytest.mark.parametrize("page", PAGES)
def test_every_page_extends_the_base(page: str) -> None:
    text = (TEMPLATES / f"{page}.html.jinja").read_text(encoding="utf-8")
    assert '{% extends "base.html.jinja" %}' in text and "<html" not in text and "<style" not in text


def test_a_page_carries_the_whole_style_and_escapes_texts() -> None:
    page = render("explain", panels=[], method="<b>&", signature="s", column_name=str)
    assert page.startswith("<!doctype html>")
    assert (TEMPLATES / "style.css").read_text(encoding="utf-8").strip() in page
    assert "&lt;b&gt;&amp;." in page and "<b>&" not in page


def test_a_name_that_nobody_gave_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'method' is undefined"):
        render("explain", panels=[], signature="s", column_name=str)
