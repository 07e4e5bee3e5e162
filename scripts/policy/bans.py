"""One version per crate, save for the pairs that deny.toml names, and no `*` requirements."""

import sys
from collections import defaultdict

from . import versions
from .graph import Graph


def check(graph: Graph, policy: dict) -> list[str]:
    settings = policy["bans"]
    problems = duplicates(graph, settings.get("skip", []))
    if settings.get("multiple-versions") != "deny":
        warn(problems)
        problems = []
    if settings.get("wildcards") == "deny":
        problems += wildcards(graph)
    return problems


def duplicates(graph: Graph, skip: list[dict]) -> list[str]:
    skipped = [(entry, *entry["crate"].partition("@")[::2]) for entry in skip]
    used = set()
    found = defaultdict(set)
    for package in graph.packages:
        matching = [
            entry["crate"]
            for entry, name, requirement in skipped
            if name == package.name and versions.matches(package.version, requirement or "*")
        ]
        used.update(matching)
        if not matching:
            found[package.name].add(package.version)
    unneeded = {entry["crate"] for entry in skip} - used
    warn(f"the skip of {spec} is no longer needed" for spec in sorted(unneeded))
    return [
        f"{name} is there in {len(several)} versions: {', '.join(sorted(several))}"
        for name, several in sorted(found.items())
        if len(several) > 1
    ]


def wildcards(graph: Graph) -> list[str]:
    """Names the workspace's `*` requirements; a dependency by path has no version to ask for."""
    return [
        f"{package.name} asks for any version of {dependency['name']}"
        for package in graph.packages
        if package.in_workspace
        for dependency in package.dependencies
        if dependency["req"] == "*" and dependency.get("path") is None
    ]


def warn(messages) -> None:
    for message in messages:
        print(f"bans: warning: {message}", file=sys.stderr)
