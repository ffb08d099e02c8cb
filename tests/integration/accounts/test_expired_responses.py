"""First responses of requests with an `Idempotency-Key`, which hold passwords and keys, are kept for a day."""

from gridfleet.kernel.db.jobs import defer
from support.clients.people import People


async def test_a_job_deletes_expired_responses_though_no_request_follows(people: People) -> None:
    admin = await people.person(super_admin=True)
    for name in ("north", "south"):
        answer = await people.call(
            "POST", "/organizations", {"name": name, "slug": name}, who=admin, headers={"idempotency-key": name}
        )
        assert answer.status_code == 201
    await people.execute("UPDATE idempotent_answer SET created_at = now() - interval '25 hours' WHERE key = 'north'")
    async with people.service.state.database.transaction() as db:
        await defer(db, "idempotency.forget_old", {"timestamp": 0})
    await people.work_off()
    assert await people.execute("SELECT key FROM idempotent_answer") == [("south",)]
