"""Cargo's version requirements, as far as deny.toml and the advisory database use them."""

import re

COMPARATOR = re.compile(r"^(>=|<=|>|<|=|\^|~)?\s*(\d+)(?:\.(\d+|\*))?(?:\.(\d+|\*))?(-[0-9A-Za-z.-]+)?")


def matches(version: str, requirement: str) -> bool:
    """Says whether every comma-separated part of the requirement holds."""
    if requirement.strip() in ("", "*"):
        return True
    return all(holds(key(version), part.strip()) for part in requirement.split(","))


def key(version: str) -> tuple:
    """Returns a sortable form; a pre-release sorts before its release."""
    core, _, before = version.partition("+")[0].partition("-")
    numbers = tuple(int(number) for number in core.split("."))
    return (*numbers, before == "", before)


def holds(version: tuple, part: str) -> bool:
    found = COMPARATOR.match(part)
    if found is None:
        raise ValueError(f"cannot read the version requirement {part!r}")
    operator = found[1] or "^"
    given = [int(number) for number in found.group(2, 3, 4) if number not in (None, "*")]
    before = (found[5] or "-")[1:]
    low = (*given, *[0] * (3 - len(given)), before == "", before)
    match operator:
        case ">=":
            return version >= low
        case ">":
            return version > low
        case "<":
            return version < low
        case "<=":
            return version <= low
        case "=":
            return version >= low and version[:len(given)] == tuple(given)
        case "~":
            kept = min(len(given), 2)
        case _:
            kept = caret_width(given)
    return version >= low and version[:kept] == tuple(given[:kept])


def caret_width(given: list[int]) -> int:
    """Returns how many leading numbers `^` keeps: up to the first that is not zero."""
    for index, number in enumerate(given):
        if number != 0:
            return index + 1
    return len(given)
