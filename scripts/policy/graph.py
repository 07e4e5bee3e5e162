"""The packages that are really built, as cargo tells, and the policy they are held against."""

import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

# A key of deny.toml that this program would silently ignore must not look checked.
KNOWN_KEYS = {
    "graph": {"targets", "all-features"},
    "licenses": {"allow", "exceptions", "unused-allowed-license"},
    "bans": {"multiple-versions", "wildcards", "allow-wildcard-paths", "skip"},
    "sources": {"unknown-registry", "unknown-git"},
    "advisories": {"unmaintained", "ignore"},
}


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    licence: str | None
    source: str | None
    """None for the workspace's own crates and for path dependencies."""
    in_workspace: bool
    dependencies: tuple[dict, ...]


@dataclass(frozen=True)
class Graph:
    packages: list[Package]

    @staticmethod
    def load(settings: dict) -> "Graph":
        features = ["--all-features"] if settings.get("all-features") else []
        metadata = json.loads(cargo("metadata", "--format-version", "1", *features))
        members = set(metadata["workspace_members"])
        built = built_packages(settings.get("targets", ["all"]), features)
        return Graph([
            Package(
                name=package["name"],
                version=package["version"],
                licence=package["license"],
                source=package["source"],
                in_workspace=package["id"] in members,
                dependencies=tuple(package["dependencies"]),
            )
            for package in metadata["packages"]
            if (package["name"], package["version"]) in built
        ])

    def direct_dependencies(self) -> set[str]:
        """Returns the names of the crates that a workspace crate asks for itself."""
        return {
            dependency["name"]
            for package in self.packages
            if package.in_workspace
            for dependency in package.dependencies
        }


def load_policy(path: Path) -> dict:
    policy = tomllib.loads(path.read_text(encoding="utf-8"))
    for section, settings in policy.items():
        unknown = set(settings) - KNOWN_KEYS.get(section, set())
        if unknown:
            names = ", ".join(sorted(unknown))
            sys.exit(f"scripts/deps: {path.name} [{section}] has keys not checked here: {names}")
    return policy


def built_packages(targets: list[str], features: list[str]) -> set[tuple[str, str]]:
    """Returns name and version of what a build compiles.

    The metadata also has crates that only features nobody enabled would pull in; the tree does not.
    """
    built = set()
    for target in targets:
        shape = ["--prefix", "none", "--format", "{p}", "--edges", "normal,build,dev"]
        tree = cargo("tree", "--workspace", "--target", target, *shape, *features)
        for line in filter(None, tree.splitlines()):
            name, version = line.split(" ")[:2]
            built.add((name, version.removeprefix("v")))
    return built


def cargo(command: str, *arguments: str) -> str:
    answer = subprocess.run(["cargo", command, "--locked", *arguments], stdout=subprocess.PIPE, text=True)
    if answer.returncode != 0:
        sys.exit(f"scripts/deps: cargo {command} failed")
    return answer.stdout
