"""Quantities as Kubernetes writes them, as integers: cpu in thousandths, all else whole.

The rule: rounded up, and held within 64 bits, as the API server itself does; what is no quantity
raises ValueError. Read ``amount`` first.
"""

import re

MOST = 2**63 - 1
_LONGEST = 64
_LARGEST_EXPONENT = 60
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)|[eE](?P<exponent>[+-]?[0-9]{1,9}))?"
)
_TENS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount(resource: str, raw: object) -> int:
    """Return how much of a resource a quantity says: thousandths of cpu, else whole ones.

    Raises ValueError.
    """
    return parse(raw, 1000 if resource == "cpu" else 1)


def parse(raw: object, times: int = 1) -> int:
    """Return a quantity times a factor, rounded up. Raises ValueError."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ValueError(f"a quantity is no {type(raw).__name__}")
    if isinstance(raw, int):
        return _held(raw * times)
    text = raw if isinstance(raw, str) else repr(raw)
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity")
    part = found["part"] or ""
    digits = int((found["whole"] or "") + part) * times
    suffix = found["suffix"] or ""
    tens = _TENS.get(suffix, 0) + int(found["exponent"] or 0)
    # Beyond this the digits that a text can have here no longer matter: all, or next to nothing.
    tens = max(-_LARGEST_EXPONENT - _LONGEST, min(_LARGEST_EXPONENT + _LONGEST, tens)) - len(part)
    digits <<= _TWOS.get(suffix, 0)
    if found["sign"] == "-":
        digits = -digits
    return _held(digits * 10**tens if tens >= 0 else -(-digits // 10**-tens))


def _held(value: int) -> int:
    return max(-MOST, min(MOST, value))
