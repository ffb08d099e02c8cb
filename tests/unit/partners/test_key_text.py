"""The text of API keys."""

from hashlib import sha256

import pytest

from gridfleet.domains.partners.key_text import MARK, digest_of, make_key


def test_a_key_looks_as_documented() -> None:
    key = make_key()
    assert key.text.startswith(MARK)
    assert len(key.text) == len(MARK) + 32 + 6
    assert (key.prefix, len(key.prefix)) == (key.text[:16], 16)
    assert digest_of(key.text) == key.digest == sha256(key.text.encode()).digest()
    assert make_key().text != key.text


def test_any_wrong_character_is_found() -> None:
    text = make_key().text
    for place in range(len(text)):
        wrong = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        assert digest_of(wrong) is None, place


@pytest.mark.parametrize("text", ["", MARK, MARK + "0" * 37, MARK + "0" * 39, "gf_test_" + "0" * 38, MARK + "ä" * 38, "\0"])
def test_what_cannot_be_a_key_has_no_digest(text: str) -> None:
    assert digest_of(text) is None
