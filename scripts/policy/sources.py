"""Packages come from the public registry or from this repository, never from git or elsewhere."""

import re

from .graph import Graph


def check(graph: Graph, policy: dict) -> list[str]:
    del policy  # both keys of the section are "deny"; there is nothing to choose
    return [
        f"{package.name} {package.version} comes from {package.source or 'outside the workspace'}"
        for package in graph.packages
        if not package.in_workspace and not from_public_registry(package.source)
    ]


def from_public_registry(source: str | None) -> bool:
    # A mirror configured on a machine does not show here: cargo reports the source it replaces.
    return source is not None and re.fullmatch(r"registry\+.*/crates\.io-index", source) is not None
