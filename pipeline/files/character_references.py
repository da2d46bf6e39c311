"""Character references of HTML and XML in stored texts: `&quot;`, `&amp;`, `&#39;`.

People who rated a text saw the characters. `collect` and `bleurt` undo the references by this one rule, once: a text
that was escaped twice (`&amp;quot;`) keeps one layer, as it would on a page.
"""

import html
import re

_REFERENCE = re.compile("&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);")


def unescaped(text: str) -> str:
    """`text` with its character references undone, if they end in a semicolon: `?a=1&copy=2` is an address.

    >>> unescaped("&quot;AT&amp;T&quot; &#228; a&copy=b")
    '"AT&T" ä a&copy=b'
    >>> unescaped("&amp;quot;")
    '&quot;'
    """
    return _REFERENCE.sub(lambda found: html.unescape(found[0]), text)
