"""TLS wherever the service is the client or the server: right certificates work, wrong ones are really refused."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from aiosmtplib import SMTPException
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from gridfleet.cli.doctor import examination
from gridfleet.cli.doctor.environment import check_mail
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.delivery import open_delivery
from gridfleet.kernel.mail.message import Mail
from gridfleet.kernel.security.server_trust import client_tls, with_authority
from gridfleet.kernel.settings import Settings
from support.servers.api_process import api_process
from support.servers.free_ports import free_ports, settings_at
from support.servers.tls_files import TlsFiles, tls_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Path:
    """An authority that issued nothing here."""
    return tls_files(folder / "stranger", "localhost").authority


@pytest.fixture(scope="module")
def files(folder: Path) -> TlsFiles:
    """A server's own, for the name `localhost` alone."""
    return tls_files(folder / "own", "localhost")


class TestRestListener:
    @pytest.fixture
    def base(self, database_url: str, home: Path, files: TlsFiles) -> Iterator[int]:
        with api_process(
            database_url,
            home,
            scheme="https",
            http_certificate=files.certificate,
            http_key=files.key,
        ) as base:
            yield httpx.URL(base).port or 0

    @pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
    def test_it_speaks_tls_1_2_and_newer_alone(self, base: int, files: TlsFiles, stranger: Path) -> None:
        url = f"https://localhost:{base}/api/v1/health/live"
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_tls(files.authority)
            context.minimum_version = context.maximum_version = version
            answer = httpx.get(url, verify=context)
            assert answer.is_success
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
        old = ssl.create_default_context(cafile=files.authority)
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, verify=old)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url, verify=client_tls(stranger))
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url.replace("localhost", "127.0.0.1"), verify=client_tls(files.authority))
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https", "http"))

    def test_certificate_and_key_go_together(self, files: TlsFiles) -> None:
        with pytest.raises(ValidationError, match="GRIDFLEET_HTTP_KEY"):
            Settings(http_certificate=files.certificate)


class TestPostgresql:
    async def test_the_authority_makes_it_verified(self, database_url: str, files: TlsFiles, stranger: Path) -> None:
        async with tls_before(database_url, files) as port:

            async def connect(authority: Path | None, host: str = "localhost", query: str = "") -> bool:
                address = f"postgresql://gridfleet@{host}:{port}/{database_name(database_url)}{query}"
                url = Settings(database_url=address, ca_file=authority).secret("database_url").get_secret_value()
                async with await psycopg.AsyncConnection.connect(url, connect_timeout=5) as connection:
                    await connection.execute("SELECT 1")
                    return bool(connection.pgconn.ssl_in_use)

            assert await connect(files.authority)
            with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
                await connect(stranger)
            with pytest.raises(psycopg.OperationalError, match="does not match host name"):
                await connect(files.authority, host="127.0.0.1")
            assert await connect(None, query="?sslmode=require"), "a URL that asks for no verification is obeyed"


def database_name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


@asynccontextmanager
async def tls_before(database_url: str, files: TlsFiles) -> AsyncIterator[int]:
    """The port at which a database is reached over TLS: the server of the tests is built without."""
    socket = Path(str(conninfo_to_dict(database_url)["host"])) / ".s.PGSQL.5432"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                writer.write(piece)
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == b"\0\0\0\x08\x04\xd2\x16\x2f"  # SSLRequest
        writer.write(b"S")
        try:
            await writer.start_tls(context)
        except (ssl.SSLError, ConnectionError):
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
        async with asyncio.TaskGroup() as both:
            both.create_task(relay(reader, inner_writer))
            both.create_task(relay(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        yield server.sockets[0].getsockname()[1]


class TestManagement:
    @pytest.fixture
    def server(self, files: TlsFiles) -> Iterator[int]:
        """Port of something that answers over TLS as the management does."""

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"rabbitmq_version":"3.10.8"}')

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        server = HTTPServer(("127.0.0.1", 0), Answers)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
        server.server_close()

    async def test_its_certificate_is_verified(self, server: int, files: TlsFiles, stranger: Path) -> None:
        address = f"https://user:password@localhost:{server}"
        for authority, good in ((files.authority, True), (stranger, False), (None, False)):
            settings = Settings(broker_management_url=address, ca_file=authority)
            async with open_management(settings.secret("broker_management_url").get_secret_value()) as management:
                if good:
                    assert (await management.overview())["rabbitmq_version"] == "3.10.8"
                else:
                    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                        await management.overview()


class TestMail:
    @pytest.fixture
    async def port(self, files: TlsFiles) -> AsyncIterator[int]:
        class Takes:
            async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
                return "250 OK"

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        port = free_ports(1)[0]
        controller = Controller(Takes(), hostname="localhost", port=port, tls_context=context)
        controller.start()
        yield port
        controller.stop()

    async def test_the_mail_servers_certificate_is_verified(
        self, port: int, home: Path, files: TlsFiles, stranger: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = MailContent("Subject", ("Text.",), "Reason.")
        mail = Mail(new_id(), "ada@example.com", content, "https://fleet.example.com", utc_now())

        def settings(authority: Path | None) -> Settings:
            return settings_at(home, smtp_url=f"smtp://localhost:{port}", ca_file=authority)

        await open_delivery(settings(files.authority)).deliver(mail)
        assert (await check_mail(examination(settings(files.authority)))).status == "ok"
        for authority in (stranger, None):
            with pytest.raises((SMTPException, ssl.SSLError)):
                await open_delivery(settings(authority)).deliver(mail)
            assert (await check_mail(examination(settings(authority)))).status == "fail"
        # A hosted mail server, beside a database with an authority of one's own.
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        await open_delivery(settings(stranger)).deliver(mail)


@pytest.mark.parametrize(
    ("url", "added"),
    [
        ("postgresql://u:p@db/g", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("postgresql://u:p@db/g?application_name=x", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("postgresql://u:p@db/g?sslmode=require", {}),
        ("postgresql://u@/g?host=%2Frun%2Fpostgresql", {}),
        ("postgresql:///g", {}),
        ("postgresql:///g?host=db", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("host=db dbname=g password='p w://'", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("host=db dbname=g sslmode=require", {}),
        ("host=/run/postgresql dbname=g", {}),
        ("dbname=g", {}),
    ],
)
def test_what_is_added_to_a_postgresql_address(url: str, added: dict[str, str]) -> None:
    assert conninfo_to_dict(with_authority(url, Path("/ca.pem"))) == conninfo_to_dict(url) | added


@pytest.mark.parametrize(
    ("url", "completed"),
    [
        ("rediss://:p@cache:6379/0", "rediss://:p@cache:6379/0?ssl_ca_certs=%2Fca.pem"),
        ("redis://cache:6379/0", "redis://cache:6379/0"),
        ("amqps://u:p@mq", "amqps://u:p@mq?cafile=%2Fca.pem"),
        ("amqps://u:p@mq?cafile=/other.pem", "amqps://u:p@mq?cafile=/other.pem"),
        ("amqp://u:p@mq", "amqp://u:p@mq"),
        ("http://u:p@mq:15672", "http://u:p@mq:15672"),
    ],
)
def test_what_is_added_to_other_addresses(url: str, completed: str) -> None:
    assert with_authority(url, Path("/ca.pem")) == completed
