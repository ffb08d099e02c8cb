"""Errors that end a simulation, with texts for the user who started it."""

__all__ = ["ApiRefused", "ApiUnreachable", "SimulationError"]


class SimulationError(Exception):
    """A simulation cannot start or continue."""


class ApiUnreachable(SimulationError):
    """No response from the service's address."""


class ApiRefused(SimulationError):
    """The service responded with an error. `status` and `code` come from the response."""

    def __init__(self, request: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{request}: {status} {code}: {message}")
        self.status = status
        self.code = code
