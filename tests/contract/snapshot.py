"""The contract's facts: paths, fields, rules and codes, without its explanations.

`contract.yaml` is the snapshot that the tests read. Where the reference lies beside the checkout, `python -m
contract.snapshot`, run from `tests/`, writes the snapshot again, and a test compares both.
"""

from pathlib import Path
from typing import Any, Final

import yaml

SNAPSHOT: Final = Path(__file__).with_name("contract.yaml")
REFERENCE: Final = Path(__file__).parents[3] / "shared" / "contract" / "endpoints.yaml"

EXPLANATIONS: Final = frozenset(
    {
        "applies_to",
        "default_from",
        "doc",
        "heading",
        "meaning",
        "note",
        "notes",
        "not_shown",
        "required_when",
        "rule",
        "says",
        "when",
    }
)
"""Keys whose values are text for readers."""

NAMES: Final = frozenset({"records", "errors", "fields", "query", "body", "routing_key_scopes", "scope_presets"})
"""Keys whose values map names of the interface, so that a field called `note` is kept."""


def facts(node: Any, parent: str = "") -> Any:
    """Return a part of the contract without its explanations.

    Args:
        node: Any value of the parsed YAML document.
        parent: The key under which the value stands; "" for the document itself.
    """
    if isinstance(node, dict):
        kept = node if parent in NAMES else {key: value for key, value in node.items() if key not in EXPLANATIONS}
        return {key: facts(value, key if parent not in NAMES else "") for key, value in kept.items()}
    if isinstance(node, list):
        return [facts(value) for value in node]
    return node


def load(path: Path) -> dict[str, Any]:
    """Return a parsed YAML document."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


if __name__ == "__main__":
    SNAPSHOT.write_text(
        yaml.safe_dump(facts(load(REFERENCE)), sort_keys=False, width=128, default_flow_style=None, allow_unicode=True),
        encoding="utf-8",
    )
