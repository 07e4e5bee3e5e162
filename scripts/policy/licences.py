"""Every package needs a licence expression that the allowed licences satisfy."""

import re

from .graph import Graph

TOKEN = re.compile(r"\(|\)|/|[A-Za-z0-9.+:-]+")


def check(graph: Graph, policy: dict) -> list[str]:
    allowed = set(policy["licenses"]["allow"])
    exceptions = {
        entry["crate"]: set(entry["allow"]) for entry in policy["licenses"].get("exceptions", [])
    }
    problems = []
    for package in graph.packages:
        label = f"{package.name} {package.version}"
        if package.licence is None:
            problems.append(f"{label} does not name its licence")
        elif not satisfied(package.licence, allowed | exceptions.get(package.name, set())):
            problems.append(f"{label} is licensed as {package.licence}, which is not allowed")
    return problems


def satisfied(expression: str, allowed: set[str]) -> bool:
    """Evaluates an SPDX expression; `/` is how older crates write OR."""
    tokens = TOKEN.findall(expression)
    value, rest = parse_or(tokens, allowed)
    if rest:
        raise ValueError(f"cannot read the licence expression {expression!r}")
    return value


# OR binds weakest, then AND, then WITH. Both sides are always parsed, whatever the first one says.


def parse_or(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    value, tokens = parse_and(tokens, allowed)
    while tokens and tokens[0] in ("OR", "/"):
        right, tokens = parse_and(tokens[1:], allowed)
        value = value or right
    return value, tokens


def parse_and(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    value, tokens = parse_term(tokens, allowed)
    while tokens and tokens[0] == "AND":
        right, tokens = parse_term(tokens[1:], allowed)
        value = value and right
    return value, tokens


def parse_term(tokens: list[str], allowed: set[str]) -> tuple[bool, list[str]]:
    if not tokens:
        raise ValueError("a licence expression ends too early")
    if tokens[0] == "(":
        value, rest = parse_or(tokens[1:], allowed)
        if not rest or rest[0] != ")":
            raise ValueError("a licence expression has an open parenthesis")
        return value, rest[1:]
    name, rest = tokens[0], tokens[1:]
    if len(rest) >= 2 and rest[0] == "WITH":
        name, rest = f"{name} WITH {rest[1]}", rest[2:]
    return name in allowed, rest
