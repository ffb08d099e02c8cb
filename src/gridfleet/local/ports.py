"""Check that the ports for `gridfleet up` are free, and name the programs that occupy them."""

import errno
import socket
from dataclasses import dataclass

import psutil

from gridfleet.kernel.settings import Settings

__all__ = ["PortProblem", "check_ports"]


@dataclass(frozen=True, slots=True)
class PortProblem:
    """A port that cannot be used; the text contains a remedy."""

    setting: str
    port: int
    reason: str

    def __str__(self) -> str:
        return f"port {self.port} {self.reason}: set GRIDFLEET_{self.setting.upper()} to another one"


def check_ports(settings: Settings, *, with_broker: bool) -> list[PortProblem]:
    """Return the problems with the ports of the service's listeners, and of the private broker node if `with_broker`."""
    listeners = {"http_port": settings.http_host, "internal_port": settings.internal_host}
    if with_broker:
        listeners |= dict.fromkeys(("mqtt_port", "mqtts_port", "amqps_port"), settings.mqtt_bind)
        listeners |= dict.fromkeys(
            ("amqp_port", "management_port", "broker_metrics_port", "broker_dist_port", "epmd_port"), "127.0.0.1"
        )
    problems = []
    seen: dict[int, str] = {}
    for setting, host in listeners.items():
        port: int = getattr(settings, setting)
        if port == 0 and setting == "mqtt_port":
            continue
        if port in seen:
            problems.append(PortProblem(setting, port, f"is given to GRIDFLEET_{seen[port].upper()} too"))
        elif reason := _why_not(host, port):
            problems.append(PortProblem(setting, port, reason))
        seen[port] = setting
    return problems


def _why_not(host: str, port: int) -> str | None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            # Two sockets with SO_REUSEADDR can both bind as long as neither listens.
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"of {host} is in use{_by(port)}"
            if error.errno == errno.EACCES:
                return f"of {host} may not be opened by this user"
            return f"of {host} cannot be opened ({error.strerror})"
    return None


def _by(port: int) -> str:
    """Return ` by name (process 1)` for the program that listens on the port, or an empty text if it is unknown."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,) and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        return ""
    return ""
