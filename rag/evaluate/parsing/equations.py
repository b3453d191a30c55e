"""The LaTeX formulas of a Markdown text, in a form in which two ways to write one formula agree."""

import re

_DELIMITED = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|\$(?!\s)([^$\n]+?)(?<!\s)\$", re.DOTALL)
_SAYS_NOTHING = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|limits|nolimits|quad|qquad|[bB]igg?[lr]?)(?![A-Za-z])|\\[,;:! ]|~|&|\s+"
)
_FONT = re.compile(
    r"\\(?:mathbf|mathrm|mathit|mathsf|mathcal|boldsymbol|bm|operatorname\*?|text|textrm|textbf)(?![A-Za-z])"
)
_SAME = {"\\prime": "'", "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\lbrace": "\\{", "\\rbrace": "\\}"}
_COMMAND = re.compile(r"\\[A-Za-z]+")
_BRACES = re.compile(r"(?<!\\)[{}]")


def equations_of(markdown: str) -> list[str]:
    """What stands between $$, $, \\[ \\] or \\( \\), in order."""
    return [next(part for part in found.groups() if part) for found in _DELIMITED.finditer(markdown)]


def plain_equation(latex: str) -> str:
    """The formula without spaces, fonts, sizes of brackets and the braces that group.

    "a^{2}" and "a^2" become one, as do "\\mathbf{E}" and "E".
    """
    latex = _COMMAND.sub(lambda found: _SAME.get(found[0], found[0]), _FONT.sub("", latex))
    return _BRACES.sub("", _SAYS_NOTHING.sub("", latex)).replace("^'", "'")
