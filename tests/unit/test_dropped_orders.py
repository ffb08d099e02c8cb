"""Commands of legacy keys that are dropped: all are counted, few lines are logged."""

from structlog.testing import capture_logs

from gridfleet.amqp.legacy_commands import DroppedCommands


def test_an_organisation_has_one_line_a_minute() -> None:
    now = 1000.0
    dropped = DroppedCommands(clock=lambda: now)
    with capture_logs() as lines:
        dropped.report()
        for _ in range(500):
            dropped.note("acme")
        dropped.report()
        dropped.note("acme")
        dropped.note("other")
        now += 59
        dropped.report()
        now += 1
        dropped.report()
        now += 60
        dropped.report()
    assert [(line["slug"], line["commands"]) for line in lines] == [("acme", 500), ("other", 1), ("acme", 1)]
    assert all(line["log_level"] == "warning" for line in lines)
