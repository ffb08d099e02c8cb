"""Jobs that a killed worker had begun are done by another one."""

import asyncio

from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY
from gridfleet.jobs.schedule import build_app
from support.clients.people import People

SWEEP = "plants.sweep_silent"


async def test_a_stalled_job_whose_next_turn_waits_does_not_keep_others_from_being_retried(people: People) -> None:
    state = people.service.state
    await people.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock, args, status, scheduled_at) VALUES"
        f" ('default', '{SWEEP}', 'sweep_silent', '{{\"timestamp\": 0}}', 'doing', NULL),"
        f" ('default', '{SWEEP}', 'sweep_silent', '{{\"timestamp\": 0}}', 'todo', now() + interval '1 hour'),"
        f" ('default', '{ERASE_TELEMETRY}', NULL, '{{\"timestamp\": 0}}', 'doing', NULL)"
    )
    app = build_app(state.settings, state.database)
    async with app.open_async():
        await app.configure_task("jobs.retry_stalled").defer_async(timestamp=0)
        async with asyncio.timeout(30):
            while await people.execute(
                "SELECT id FROM procrastinate_jobs WHERE task_name = 'jobs.retry_stalled' AND status = 'todo'"
            ):
                await app.run_worker_async(
                    wait=False, install_signal_handlers=False, delete_jobs="successful", listen_notify=False
                )
    assert await people.execute("SELECT task_name FROM procrastinate_jobs WHERE status IN ('doing', 'failed')") == []
    waiting = await people.execute(f"SELECT count(*) FROM procrastinate_jobs WHERE task_name = '{SWEEP}'")
    assert waiting == [(1,)], "the turn that waits does the work of both"
    assert await people.execute(f"SELECT id FROM procrastinate_jobs WHERE task_name = '{ERASE_TELEMETRY}'") == []
