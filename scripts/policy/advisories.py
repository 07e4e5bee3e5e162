"""Known vulnerabilities, from the RustSec database: one Markdown file per advisory, TOML on top."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from . import versions
from .graph import Graph, Package

DATABASE_URL = "https://github.com/RustSec/advisory-db"
FRONT_MATTER = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def fetch(directory: Path, timeout_s: int) -> Path | None:
    """Returns a fresh copy of the database, or None where it cannot be had in time."""
    shutil.rmtree(directory, ignore_errors=True)
    command = ["git", "clone", "--quiet", "--depth", "1", DATABASE_URL, str(directory)]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    # Not piped: git's helpers could outlive the time limit and keep a pipe open.
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        answer = subprocess.run(command, timeout=timeout_s, env=environment, **quiet)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return None
    return directory if answer.returncode == 0 else None


def check(graph: Graph, policy: dict, database: Path) -> list[str]:
    ignored = {
        entry if isinstance(entry, str) else entry["id"]
        for entry in policy["advisories"].get("ignore", [])
    }
    direct = graph.direct_dependencies()
    problems = []
    for package in graph.packages:
        for file in sorted((database / "crates" / package.name).glob("RUSTSEC-*.md")):
            entry = read(file)
            if entry["advisory"]["id"] in ignored or not affects(entry, package):
                continue
            message = f"{package.name} {package.version}: {entry['advisory']['id']}"
            if matters(entry, package, direct):
                problems.append(message)
            else:
                print(f"advisories: note: {message}", file=sys.stderr)
    return problems


def read(file: Path) -> dict:
    found = FRONT_MATTER.search(file.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{file.name} has no TOML on top")
    return tomllib.loads(found[1])


def affects(entry: dict, package: Package) -> bool:
    if "withdrawn" in entry["advisory"]:
        return False
    safe = entry.get("versions", {})
    ranges = [*safe.get("patched", []), *safe.get("unaffected", [])]
    return not any(versions.matches(package.version, requirement) for requirement in ranges)


def matters(entry: dict, package: Package, direct: set[str]) -> bool:
    """An unmaintained crate only matters when a workspace crate asks for it."""
    return entry["advisory"].get("informational") != "unmaintained" or package.name in direct
