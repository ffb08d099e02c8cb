"""The snapshot of the contract is complete and equals the reference."""

from collections import Counter

from contract.snapshot import REFERENCE, SNAPSHOT, facts, load

SENTENCE_WORDS = 6


def test_the_snapshot_equals_the_reference_where_that_is_present() -> None:
    reference = load(REFERENCE) if REFERENCE.exists() else load(SNAPSHOT)
    assert load(SNAPSHOT) == facts(reference)


def test_every_section_has_as_many_rows_as_it_states() -> None:
    snapshot = load(SNAPSHOT)
    rows = Counter(row["section"] for row in snapshot["endpoints"])
    assert rows == {section["name"]: section["count"] for section in snapshot["sections"]}
    assert rows.total() == 107


def test_explanations_are_removed_and_fields_of_the_same_name_are_kept() -> None:
    document = {"notes": "Shown twice.", "body": {"note": {"type": "string", "rule": "free text"}}, "errors": ["NOT_FOUND"]}
    assert facts(document) == {"body": {"note": {"type": "string"}}, "errors": ["NOT_FOUND"]}


def test_the_snapshot_contains_no_sentences() -> None:
    lines = [value for value in texts(load(SNAPSHOT)) if len(value.split()) >= SENTENCE_WORDS]
    assert lines == []


def texts(node: object) -> list[str]:
    """Return every text value of a parsed document."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []
