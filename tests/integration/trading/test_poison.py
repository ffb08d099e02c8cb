"""Whatever one organisation's ESM answers, its callers get a coded answer and others are served in time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.servers.poisoned_esm import Answer, PoisonedTrading, of_an_esm, poisoned_trading


@pytest.fixture
async def trading(database_url: str, home: Path) -> AsyncIterator[PoisonedTrading]:
    async with poisoned_trading(database_url, home) as running:
        yield running


@settings(max_examples=6, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(st.lists(of_an_esm(), min_size=4, max_size=12))
async def test_poison_of_one_esm_holds_up_no_other(trading: PoisonedTrading, answers: list[Answer]) -> None:
    await trading.round(answers)


async def test_the_worst_answers(trading: PoisonedTrading) -> None:
    huge, deep = b"9" * 400, b"[" * 2_000 + b"]" * 2_000
    plan = b'{"requestCode":"@request@","resultCode":"OK","isError":false,"version":%b,"message":%b}'
    energies = b"".join(
        b',{"time":"2026-11-20T10:%02d:00Z","meter_id":"M","interval":5,"energy":1.7e308}' % at for at in range(5, 30, 5)
    )
    first = b'{"time":"2026-11-20T10:00:00Z","meter_id":"M","interval":5,"energy":1.7e308}'
    await trading.round(
        [
            ("token", b'{"access_token":"t","expires_in":%b}' % huge),
            ("token", deep),
            ("plants", b'{"plants":[{"externalPlantId":"P1","capacityKwh":%b}]}' % huge),
            ("plants", b'{"plants":[{"externalPlantId":"P1","capacityKwh":5e-324,"fvePeakPowerKwp":-1e308}]}'),
            ("plants", b'{"plants":[%b,{"externalPlantId":"P1","tag":%b}]}' % (deep, deep)),
            ("plants", b'{"plants":[{"externalPlantId":"\xff"},{"externalPlantId":"P1","tag":"S\xfcd"}]}'),
            ("config", deep),
            ("config", b'{"configEnabled":true,"esiState":"a\\u0000\\u001b","version":%b,"timeConfigs":[]}' % huge),
            ("config", b'{"configEnabled":true,"esiState":"a\\u0000\\ud800","version":1,"timeConfigs":[]}'),
            ("plan", plan % (huge, b'"x"')),
            ("plan", plan % (b"1", b'"\\u0000\\u001b"')),
            ("plan", plan % (b"1", deep)),
            ("validation", plan % (b"1e308", b'"\\ud800"')),
            ("meters", b'{"readings":[%b%b]}' % (first, energies)),
            ("meters", b'{"readings":[{"time":"2026-11-20T10:00:00Z","meter_id":"M","interval":5e-324,"energy":%b}]}' % huge),
            ("meters", b'{"readings":[{"time":"0001-01-01T00:00:00+14:00","meter_id":"M","interval":1,"energy":1}]}'),
            ("meters", b'{"readings":[{"time":"9999-12-31T23:59:59-14:00","meter_id":"M","interval":1e308,"energy":-0.0}]}'),
        ]
    )


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 2_000,
        b'{"plants":[{"externalPlantId":"P1","tag":"a\\u0000"}]}',
        b'{"plants":[{"externalPlantId":"P1","tag":"S\xfcd"}]}',
    ],
)
async def test_the_periodic_sync_ends_whatever_an_esm_answers(trading: PoisonedTrading, content: bytes) -> None:
    await trading.sync_job(content)
