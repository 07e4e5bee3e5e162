"""What the policy checks accept and refuse. Run from scripts/: python3 -m unittest policy.tests"""

import tempfile
import unittest
from pathlib import Path

from . import advisories, bans, licences, sources, versions
from .graph import Graph, Package

REGISTRY = "registry+mirror/crates.io-index"
ADVISORY = """```toml
[advisory]
id = "RUSTSEC-2020-0001"
package = "old"

[versions]
patched = [">= 1.2.0"]
```
"""


def package(name: str, version: str, licence: str | None = "MIT", source: str | None = REGISTRY) -> Package:
    return Package(name, version, licence, source, in_workspace=False, dependencies=())


class Policy(unittest.TestCase):
    def test_version_requirements(self):
        for version, requirement, expected in [
            ("1.2.3", "^1.2", True),
            ("2.0.0", "1", False),
            ("0.3.4", "0.3", True),
            ("0.4.0", "0.3", False),
            ("0.0.4", "^0.0.3", False),
            ("0.3.4", ">= 0.3.1, < 0.4", True),
            ("1.0.0-rc.1", ">=1.0.0", False),
            ("1.2.9", "~1.2.3", True),
            ("1.3.0", "~1.2.3", False),
            ("1.2.4", "=1.2.3", False),
            ("1.5.0", "*", True),
        ]:
            self.assertEqual(versions.matches(version, requirement), expected, (version, requirement))

    def test_licence_expressions(self):
        for expression, expected in [
            ("MIT OR GPL-3.0", True),
            ("MIT/GPL-2.0", True),
            ("(MIT OR Zlib) AND Unicode-3.0", True),
            ("MIT AND GPL-3.0", False),
            ("MIT WITH some-exception", False),
        ]:
            found = licences.satisfied(expression, {"MIT", "Unicode-3.0"})
            self.assertEqual(found, expected, expression)

    def test_a_package_without_licence_is_refused(self):
        graph = Graph([package("bare", "1.0.0", licence=None)])
        problems = licences.check(graph, {"licenses": {"allow": ["MIT"]}})
        self.assertEqual(problems, ["bare 1.0.0 does not name its licence"])

    def test_a_second_version_is_refused_unless_skipped(self):
        graph = Graph([package("twice", "1.0.0"), package("twice", "2.0.0")])
        self.assertEqual(len(bans.duplicates(graph, [])), 1)
        self.assertEqual(bans.duplicates(graph, [{"crate": "twice@1"}]), [])

    def test_only_the_public_registry_is_a_source(self):
        graph = Graph([package("fork", "1.0.0", source="git+elsewhere"), package("fine", "1.0.0")])
        self.assertEqual(sources.check(graph, {}), ["fork 1.0.0 comes from git+elsewhere"])

    def test_an_unpatched_version_is_reported(self):
        graph = Graph([package("old", "1.1.9"), package("old", "1.2.0")])
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory) / "crates" / "old"
            folder.mkdir(parents=True)
            (folder / "RUSTSEC-2020-0001.md").write_text(ADVISORY, encoding="utf-8")
            problems = advisories.check(graph, {"advisories": {}}, Path(directory))
        self.assertEqual(problems, ["old 1.1.9: RUSTSEC-2020-0001"])


if __name__ == "__main__":
    unittest.main()
