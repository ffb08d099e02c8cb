"""The page for partners says what the code does: routing keys, scopes, reasons and the vector."""

import re
from pathlib import Path

from gridfleet.protocol import signature
from gridfleet.protocol.partner_messages import Mode, RejectionReason
from gridfleet.protocol.partner_routes import CommandKind, EventKind, event_queue

PAGE = (Path(__file__).parents[3] / "docs" / "partner-messages.md").read_text()


def test_every_order_has_its_row() -> None:
    for order in CommandKind:
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{{slug}}.{order}`")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1].split(",")[0] == order.command_type
        assert cells[3:] == [f"`{order.scope}`", "yes" if order.signed else "no"]


def test_every_queue_mode_and_reason_is_named() -> None:
    named = set(re.findall(r"[A-Z_]{4,}", PAGE))
    assert set(RejectionReason) | set(Mode) <= named
    assert all(f"`{event_queue('{slug}', kind)}`" in PAGE for kind in EventKind)


def test_the_vector_holds() -> None:
    rows = dict(re.findall(r"^\| ([a-z ]+) \| `([^`]+)` \|$", PAGE, re.MULTILINE))
    key = signature.key_from_hex(rows["signing key"])
    message_id = re.findall(r'"messageId":"([^"]+)"', rows["body"])[0]
    signed = signature.sign(key, rows["routing key"], message_id, int(rows["timestamp"]), rows["body"].encode())
    assert signed == rows["signature"]
