"""Numbers and quantities in templates, as a reader sees them: {{convert}}, {{formatnum}}, {{val}} and {{frac}}.

Of a converted quantity, only the given value stays: `{{convert|5|km|mi}}` becomes "5 km", without "(3.1 mi)".
"""

import re

from pipeline.extract.tags import FORMULA, TEMPLATE

Arguments = dict[str, str]
"""Arguments of a template as plain text. The keys are their names, or "1", "2", … for those without a name."""

_WORDS = {
    **{"C": "°C", "°C": "°C", "F": "°F", "°F": "°F", "C-change": "°C", "F-change": "°F", "C change": "°C"},
    **{"km2": "km²", "m2": "m²", "cm2": "cm²", "mm2": "mm²", "km3": "km³", "m3": "m³", "cm3": "cm³"},
    **{"m/s2": "m/s²", "m3/s": "m³/s", "sqmi": "square miles", "mi2": "square miles", "sqft": "square feet"},
    **{"ft2": "square feet", "sqyd": "square yards", "cuft": "cubic feet", "cuyd": "cubic yards"},
    **{"cumi": "cubic miles", "cuin": "cubic inches", "acre": "acres", "ha": "hectares", "mi": "miles"},
    **{"nmi": "nautical miles", "ft": "feet", "in": "inches", "yd": "yards", "fathom": "fathoms", "ly": "light-years"},
    **{"lb": "pounds", "oz": "ounces", "st": "stone", "ton": "tons", "LT": "long tons", "ST": "short tons"},
    **{"t": "tonnes", "gal": "gallons", "USgal": "US gallons", "impgal": "imperial gallons", "kn": "knots"},
    **{"knot": "knots", "hp": "horsepower", "oilbbl": "barrels", "carat": "carats"},
}
_SYMBOLS = """
km m cm mm μm µm nm kg g mg μg µg L l mL ml dm km/h mph m/s ft/s mi/h kPa hPa MPa Pa psi bar atm kW MW GW W kWh MWh GWh
TWh J kJ MJ kcal N kN Nm V A K AU PS Hz kHz MHz GHz pc kpc hectares inches feet miles acres
"""
_ITSELF = frozenset(_SYMBOLS.split())
_SINGULAR = {"feet": "foot", "inches": "inch", "stone": "stone", "horsepower": "horsepower"}
_PREFIX = re.compile(r"(?P<power>e3|e6|e9|e12|k(?=oil)|M(?=oil)|T(?=cuft)|G(?=oil))(?P<unit>.+)")
_POWERS = {"e3": "thousand", "e6": "million", "e9": "billion", "e12": "trillion"}
_POWERS |= {"k": "thousand", "M": "million", "G": "billion", "T": "trillion"}
_PER = {"d": "day", "a": "year", "sqmi": "square mile", "km2": "km²", "year": "year"}
_RANGE = {"to": " to ", "-": "–", "–": "–", "and": " and ", "or": " or ", "x": " × ", "by": " by ", "×": " × "}
_RANGE |= {"to(-)": " to ", "and(-)": " and ", "to about": " to about ", "+/-": " ± ", "±": " ± ", "*": " × "}
_NUMBER = re.compile(r"[-−+]?[\d,]{0,40}\.?\d{1,40}(?:\+\d{1,9}/\d{1,9})?|[-−+]?\d{1,9}//?\d{1,9}")
MAX_PARTS = 3
"""Most parts of a quantity in mixed units (5 ft 10 in has two); a quantity with more leaves a hole."""

_HIDDEN = frozenset(("output only", "number", "out", "unit", "table", "tablecen", "unit2", "output number only"))


def numbered(arguments: Arguments) -> list[str]:
    """The arguments without a name, in order; empty ones are left out.

    >>> numbered({"1": "5", "2": "", "3": "km", "abbr": "on"})
    ['5', 'km']
    """
    return [arguments[str(i)] for i in range(1, len(arguments) + 1) if arguments.get(str(i))]


def converted(arguments: Arguments) -> str:
    """Value and unit as given; a hole if the unit or the layout is unknown.

    >>> converted({"1": "12000", "2": "to", "3": "15000", "4": "sqmi"}), converted({"1": "1", "2": "mi", "adj": "on"})
    ('12,000 to 15,000 square miles', '1-mile')
    """
    values = numbered(arguments)
    quantity = ""
    while len(values) >= 2 and arguments.get("disp") not in _HIDDEN and _NUMBER.fullmatch(values[0]):
        quantity += grouped(values.pop(0))
        if values[0] not in _RANGE or len(values) < 3:
            return _with_unit(quantity, values, arguments)
        quantity += _RANGE[values.pop(0)]
    return TEMPLATE


def _with_unit(quantity: str, rest: list[str], arguments: Arguments) -> str:
    """`quantity` with the unit that `rest` begins with, and with further parts in smaller units."""
    unit = _unit(rest[0])
    parts: list[str] = []
    while unit and len(rest) > 2 and re.fullmatch(r"\d+(\.\d+)?", rest[1]) and (lower := _unit(rest[2])):
        parts.append(f"{quantity} {unit} ")  # 5 ft 10 in
        quantity, unit, rest = rest[1], lower, rest[2:]
        if len(parts) == MAX_PARTS:
            return TEMPLATE
    if unit is None:
        return TEMPLATE
    adjective = arguments.get("adj") in {"on", "mid"}
    if adjective or quantity in {"1", "-1", "−1"}:
        *before, last = unit.split(" ")
        unit = " ".join([*before, _SINGULAR.get(last) or (last.removesuffix("s") if len(last) > 3 else last)])
    joint = "-" if adjective and unit.isalpha() and len(unit) > 3 else " "
    return f"{''.join(parts)}{quantity}{joint}{unit}"


def _unit(code: str) -> str | None:
    """The words for a unit code, or None; "million acres" for `e6acre`, "barrels per day" for `oilbbl/d`."""
    prefix = None if code in _WORDS or code in _ITSELF else _PREFIX.fullmatch(code)
    if prefix is None:
        return _plain_unit(code)
    unit = _plain_unit(prefix["unit"])
    return f"{_POWERS[prefix['power']]} {unit}" if unit else None


def _plain_unit(code: str) -> str | None:
    """The words for a unit code without a power of ten, or None if it is unknown."""
    if code in _WORDS or code in _ITSELF:
        return _WORDS.get(code, code)
    above, slash, below = code.partition("/")
    if slash and above in _WORDS and below in _PER:
        return f"{_WORDS[above]} per {_PER[below]}"
    return f"inhabitants per {_PER[below]}" if above == "PD" and below in _PER else None


def grouped(number: str) -> str:
    """A number with commas ("12,000"), or a fraction such as `1+1/2` as "1 1/2".

    A number of up to four digits stays as it is, apart from its minus sign.

    >>> grouped("12000.5"), grouped("1994"), grouped("-40")
    ('12,000.5', '1994', '−40')
    """
    number = number.replace("//", "/").replace("+", " ") if "/" in number else number
    whole, dot, decimals = number.partition(".")
    sign, digits = ("−", whole[1:]) if whole[:1] in {"-", "−"} else ("", whole)
    if not digits.isdecimal() or len(digits) <= 4:
        return sign + number[len(sign) :]
    digits = digits.lstrip("0") or "0"
    first = len(digits) % 3
    threes = [digits[i : i + 3] for i in range(first, len(digits), 3)]
    return f"{sign}{','.join([digits[:first], *threes] if first else threes)}{dot}{decimals}"


def formatted(arguments: Arguments) -> str:
    """`{{formatnum:12000}}` shows "12,000"."""
    return grouped(arguments.get("1", "")) or TEMPLATE


def measured(arguments: Arguments) -> str:
    """`{{val|30000|u=km}}` shows "30,000 km"; a formula if there is an uncertainty or an exponent."""
    numbers = numbered(arguments)
    unit = arguments.get("u") or arguments.get("ul") or ""
    plain = len(numbers) == 1 and not {"e", "fmt", "p", "s", "end"} & set(arguments)
    if not plain or not _NUMBER.fullmatch(numbers[0]) or not re.fullmatch(r"[\w°/ ]*", unit):
        return FORMULA
    return f"{grouped(numbers[0])} {unit}".strip()


def fraction(arguments: Arguments) -> str:
    """`{{frac|2}}` shows "1/2", `{{frac|3|4}}` "3/4" and `{{frac|1|3|4}}` "1 3/4"."""
    parts = numbered(arguments)
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        return FORMULA
    shown = f"{parts[-2] if len(parts) > 1 else 1}/{parts[-1]}"
    return f"{parts[0]} {shown}" if len(parts) == 3 else shown
