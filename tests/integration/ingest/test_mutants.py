"""Batches of mutated messages: each is stored or refused with a reason, and none surprises pipeline or database."""

import json

from gridfleet.protocol.envelope import sign_message
from support.builders.decoders import ACK, SIGNALS, SNAPSHOT, STATUS
from support.builders.mutations import mutate_bytes, mutate_json
from support.clients.ingest_bench import Bench


async def test_no_mutant_surprises_the_pipeline(bench: Bench) -> None:
    plant = await bench.plant(["PV1"])
    await plant.add_device("T", SIGNALS)
    snapshot = {**SNAPSHOT, "devices": [*SNAPSHOT["devices"], {"id": "T", "fields": {"p.raw": 1, "flags": 9, "e": 2.5}}]}
    signed = sign_message(plant.key, f"v1/plants/{plant.id}/telemetry", "m", 1, json.dumps(snapshot).encode())
    batch = await bench.take(
        *(plant.message(mutate_json(snapshot, seed)) for seed in range(300)),
        *(plant.message(mutate_json([snapshot, snapshot], seed)) for seed in range(100)),
        *(plant.message(mutate_json(ACK, seed), channel="ack") for seed in range(100)),
        *(plant.delivery(mutate_json(STATUS, seed), channel="status") for seed in range(100)),
        *(plant.delivery(mutate_bytes(signed, seed)) for seed in range(100)),
    )
    refusals = await plant.refusals()
    assert batch.results["accepted"] > 50
    assert len(refusals) > 100
    assert [detail for _, detail in refusals if "could not be" in detail] == []
