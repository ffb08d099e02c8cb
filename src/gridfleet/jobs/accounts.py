"""Jobs about accounts: queued mails, the first step of a password reset, and deletion of old records."""

from datetime import timedelta
from typing import Final

import aiosmtplib
import structlog
from procrastinate import App, BaseRetryStrategy, JobContext, RetryDecision, RetryStrategy
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status

from gridfleet.domains.audit import recorder as audit
from gridfleet.domains.identity import housekeeping as identity
from gridfleet.domains.identity.accounts import password_reset
from gridfleet.domains.organizations.invitations import registry
from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database, idempotency
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.mail.delivery import MailRefused, open_delivery
from gridfleet.kernel.mail.queue import SEND_MAIL, MailQueue, open_mail
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings

__all__ = ["LONGEST_RETRY", "MailRetry", "add_account_jobs"]

_KEEP_FAILED_HOURS = 7 * 24

log = structlog.get_logger(__name__)


LONGEST_RETRY: Final = timedelta(hours=1)
"""The longest time between two tries of a job, that of mails."""


class MailRetry(BaseRetryStrategy):
    """Retry strategy for mails: 30 attempts within about one day. The delay starts at 5 seconds and doubles up to the longest.

    A mail that the server refuses permanently is not retried.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return the delay before the next attempt; None to give up."""
        if isinstance(exception, MailRefused) or job.attempts + 1 >= 30:
            return None
        return RetryDecision(retry_in={"seconds": min(LONGEST_RETRY // timedelta(seconds=1), 5 * 2 ** min(job.attempts, 16))})


_RESET_RETRY = RetryStrategy(max_attempts=8, exponential_wait=2)
"""Retries for about eight minutes: after that, the user has probably asked again."""


def add_account_jobs(app: App, database: Database, settings: Settings) -> None:
    """Add the account jobs to the queue.

    Raises:
        LookupError: There are no keys.
    """
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    delivery = open_delivery(settings)
    mail_queue = MailQueue(keyring, settings.base_url)

    @app.task(name=SEND_MAIL, retry=MailRetry(), pass_context=True)
    async def send_mail(context: JobContext, mail_id: str, key_version: int, sealed: str) -> None:
        mail = open_mail(keyring, mail_id, key_version, sealed)
        try:
            await delivery.deliver(mail)
        except (MailRefused, aiosmtplib.SMTPException, OSError) as error:
            outcome = "refused" if isinstance(error, MailRefused) else "failed"
            metrics.MAILS.labels(outcome).inc()
            log.warning("mail not sent", mail_id=mail_id, outcome=outcome, attempt=context.job.attempts + 1, error=str(error))
            raise
        metrics.MAILS.labels("sent").inc()
        log.info("mail sent", mail_id=mail_id)

    @app.task(name=password_reset.START_TASK, retry=_RESET_RETRY)
    async def start_password_reset(email: str, ip: str) -> None:
        async with database.transaction() as db:
            await password_reset.start(db, mail_queue, email, ip)

    @app.periodic(cron="17 * * * *")
    @app.task(queueing_lock="sweep_identity", name="identity.sweep")
    async def sweep_identity(timestamp: int) -> None:
        await identity.sweep(database)
        async with database.transaction() as db:
            await registry.sweep_expired(db)

    @app.periodic(cron="27 * * * *")
    @app.task(queueing_lock="forget_audit_events", lock="forget_audit_events", name="audit.forget_old")
    async def delete_audit_events(timestamp: int) -> None:
        await audit.delete_old(database, settings.audit_days, settings.csp_report_days)

    @app.periodic(cron="47 * * * *")
    @app.task(queueing_lock="forget_responses", name="idempotency.forget_old")
    async def delete_first_responses(timestamp: int) -> None:
        await in_batches(database, idempotency.delete_old)

    @app.periodic(cron="37 * * * *")
    @app.task(queueing_lock="forget_jobs", name="jobs.forget_failed", pass_context=True)
    async def delete_failed_jobs(context: JobContext, timestamp: int) -> None:
        await context.app.job_manager.delete_old_jobs(nb_hours=_KEEP_FAILED_HOURS, include_failed=True, include_aborted=True)

    @app.periodic(cron="* * * * *")
    @app.task(queueing_lock="retry_stalled", name="jobs.retry_stalled", pass_context=True)
    async def retry_stalled(context: JobContext, timestamp: int) -> None:
        # Jobs of a killed process would otherwise stay in status "doing" permanently.
        manager = context.app.job_manager
        for job in await manager.get_stalled_jobs():
            if job.id == context.job.id:
                continue
            try:
                await manager.retry_job(job)
            except UniqueViolation:
                # The same job is already queued for its next run.
                await manager.finish_job(job, Status.FAILED, delete_job=True)
            except ConnectorException as error:
                # Another process has retried the job, or the job has ended.
                log.warning("stalled job not retried", job=job.task_name, job_id=job.id, error=str(error.__cause__))
