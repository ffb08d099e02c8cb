"""Limit on the open files, including sockets, of a process."""

import resource

import structlog

__all__ = ["allow_open_files"]

log = structlog.get_logger(__name__)


def allow_open_files(wanted: int) -> None:
    """Raise the soft limit to `wanted`, or to the hard limit if that is lower, which is logged."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (OSError, ValueError):  # a sandbox may forbid it
            allowed = soft
    if allowed < wanted:
        log.warning("limit of open files is low", wanted=wanted, allowed=allowed)
