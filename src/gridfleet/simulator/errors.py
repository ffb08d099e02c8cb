"""What stops a simulation, in words for the person who started it."""

__all__ = ["ApiRefused", "ApiUnreachable", "SimulationError"]


class SimulationError(Exception):
    """A simulation cannot start or go on."""


class ApiUnreachable(SimulationError):
    """Nothing answers at the service's address."""


class ApiRefused(SimulationError):
    """The service answered with an error; `status` and `code` are its words."""

    def __init__(self, request: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{request}: {status} {code}: {message}")
        self.status = status
        self.code = code
