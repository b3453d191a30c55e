"""A spreadsheet's value as its cell shows it."""

import re
from datetime import date, datetime, time, timedelta

_QUOTED = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|_.|\*.|\[[^\]]*\]')
_DIGITS = re.compile(r"[0#?](?:[0#?,]*[0#?])?(?:\.[0#?]*)?(?:E[+-]0+)?|\.[0#?]+")
_DATE_PART = re.compile(r"yyyy|yy|mmmmm|mmmm|mmm|mm|m|dddd|ddd|dd|d|hh|h|ss|s|AM/PM|A/P|\.0+|[^ymdhsAP]", re.IGNORECASE)
_LITERAL = "\ue000"  # stands for a literal while the format is taken apart


def display_value(value: object, number_format: str) -> str:
    """The text of the cell. Locales are not known: names of months are English, the decimal sign is a point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return _number(value, number_format)
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime | date | time):
        return _moment(value, number_format)
    return str(value)


def _number(value: float, number_format: str) -> str:
    sections = _split(number_format)
    section = sections[0]
    if value < 0 and len(sections) > 1:
        section, value = sections[1], -value
    elif value == 0 and len(sections) > 2:
        section = sections[2]
    if section.lower() in ("general", "", "@") or "general" in section.lower():
        return _general(value)
    pattern, literals = _without_literals(section)
    match = _DIGITS.search(pattern)
    if match is None:
        return _with_literals(pattern, literals).strip() if literals else _general(value)
    if "?/" in pattern or "#/" in pattern:
        return _general(value)
    sign = "-" if value < 0 and not (len(sections) > 1 and section is sections[1]) else ""
    before = _with_literals(pattern[: match.start()], literals).lstrip()
    after = _with_literals(pattern[match.end() :].lstrip(","), literals).rstrip()
    return f"{sign}{before}{_digits(abs(value), match[0], pattern)}{after}"


def _digits(value: float, digits: str, pattern: str) -> str:
    if "E" in digits:
        mantissa, _, exponent = digits.partition("E")
        places = len(mantissa.partition(".")[2])
        text, _, power = f"{value:.{places}E}".partition("E")
        sign = "-" if power.startswith("-") else "+" if exponent.startswith("+") else ""
        return f"{text}E{sign}{abs(int(power)):0{len(exponent) - 1}d}"
    value *= 100 ** pattern.count("%")
    whole, _, fraction = digits.partition(".")
    following = pattern[pattern.index(digits) + len(digits) :]
    value /= 1000 ** (len(following) - len(following.lstrip(",")))  # commas behind the digits: thousands
    text = f"{value:{',' if ',' in whole else ''}.{len(fraction)}f}"
    optional = len(fraction) - len(fraction.rstrip("#?"))
    if optional and "." in text:
        kept = len(text) - optional
        text = text[:kept] + text[kept:].rstrip("0")
        text = text.rstrip(".") if not fraction.strip("#?") else text
    least = whole.replace(",", "").count("0")
    number, point, rest = text.partition(".")
    return number.rjust(least, "0") + point + rest if least > 1 else text


def _general(value: float) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.10g}" if abs(value) < 1e11 else f"{value:.5E}"
    return str(int(value)) if abs(value) < 1e15 else f"{value:.5E}"


def _moment(value: datetime | date | time, number_format: str) -> str:
    """The date or time in the cell's own format; in ISO 8601 where that says neither."""
    pattern, literals = _without_literals(_split(number_format)[0])
    parts = _DATE_PART.findall(pattern)
    if not any(part[0].lower() in "ymdhs" for part in parts):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, time):
        value = datetime.combine(date(1900, 1, 1), value)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    half_day = any(part.upper() in ("AM/PM", "A/P") for part in parts)
    written: list[str] = []
    before = ""  # the last part that was a letter: minutes follow hours, or come before seconds
    for at, part in enumerate(parts):
        following = next((later[0].lower() for later in parts[at + 1 :] if later[0].lower() in "ymdhs"), "")
        is_minute = part.lower() in ("m", "mm") and (before == "h" or following == "s")
        written.append(_date_part(value, part, is_minute, half_day))
        if part[0].lower() in "ymdhs":
            before = part[0].lower()
    return _with_literals("".join(written), literals).strip()


def _date_part(value: datetime, part: str, is_minute: bool, half_day: bool) -> str:
    hour = (value.hour % 12 or 12) if half_day else value.hour
    match part.lower():
        case "yyyy":
            return f"{value.year:04}"
        case "yy":
            return f"{value.year % 100:02}"
        case "mmmmm":
            return value.strftime("%B")[0]
        case "mmmm":
            return value.strftime("%B")
        case "mmm":
            return value.strftime("%b")
        case "mm":
            return f"{value.minute if is_minute else value.month:02}"
        case "m":
            return str(value.minute if is_minute else value.month)
        case "dddd":
            return value.strftime("%A")
        case "ddd":
            return value.strftime("%a")
        case "dd":
            return f"{value.day:02}"
        case "d":
            return str(value.day)
        case "hh":
            return f"{hour:02}"
        case "h":
            return str(hour)
        case "ss":
            return f"{value.second:02}"
        case "s":
            return str(value.second)
        case "am/pm" | "a/p":
            return "PM" if value.hour >= 12 else "AM"
        case _ if part.startswith(".0"):
            return f"{value.microsecond / 1e6:.{len(part) - 1}f}"[1:]
        case _:
            return part


def _duration(value: timedelta) -> str:
    seconds = round(value.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _split(number_format: str) -> list[str]:
    """The sections of the format: positive, negative, zero, text."""
    sections, quoted, start = [], False, 0
    for at, character in enumerate(number_format):
        if character == '"':
            quoted = not quoted
        elif character == ";" and not quoted:
            sections.append(number_format[start:at])
            start = at + 1
    return [*sections, number_format[start:]]


def _without_literals(section: str) -> tuple[str, list[str]]:
    """The section with each literal replaced by a placeholder; padding, colours and conditions are dropped."""
    literals: list[str] = []

    def take(match: re.Match[str]) -> str:
        literal = next((group for group in match.groups() if group is not None), None)
        if literal is None:
            return " " if match[0].startswith("_") else ""
        literals.append(literal)
        return _LITERAL

    return _QUOTED.sub(take, section), literals


def _with_literals(text: str, literals: list[str]) -> str:
    """The text with the placeholders filled, from the first literal that is still there; they are used up."""
    while _LITERAL in text and literals:
        text = text.replace(_LITERAL, literals.pop(0), 1)
    return text
