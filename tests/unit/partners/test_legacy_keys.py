"""Files of legacy keys to import: headers and expiry times."""

import pytest

from gridfleet.domains.partners.legacy.importing import ImportRefused, read_keys

HEAD = "id,organisation,key,hash,scopes,expiry,signing_key\n"
KEY = "0190c2a8-0000-7000-8000-000000000001,acme,secret-of-a-partner-1,,vcp:connect,{expiry},\n"


def test_a_time_is_kept_in_utc() -> None:
    [key] = read_keys(HEAD + KEY.format(expiry="2099-01-01T00:00:00-05:00"))
    assert key.expires_at is not None
    assert key.expires_at.isoformat() == "2099-01-01T05:00:00+00:00"


@pytest.mark.parametrize(
    ("expiry", "complaint"),
    [
        ("soon", "must be a time"),
        ("2099-01-01T00:00:00", "needs a time zone"),
        ("2001-01-01T00:00:00Z", "must be in the future"),
        ("9999-12-31T23:59:59-05:00", "must be before the year 10000"),
    ],
)
def test_what_is_wrong_with_a_time(expiry: str, complaint: str) -> None:
    with pytest.raises(ImportRefused, match=complaint):
        read_keys(HEAD + KEY.format(expiry=expiry))


@pytest.mark.parametrize("header", ['"id,organisation,scopes', 'id,organisation,"scopes"x'])
def test_a_header_that_is_no_csv_is_refused(header: str) -> None:
    with pytest.raises(ImportRefused, match="line 1: "):
        read_keys(f"{header}\n")
