"""How often a plant may log in."""

from uuid import UUID

from gridfleet.domains.plants.mqtt_access.login_limit import MOST_AN_HOUR, PlantLogins

SECOND = 1_000_000_000
PLANT, OTHER = UUID(int=1), UUID(int=2)


def test_the_logins_of_an_hour_are_bounded() -> None:
    now = 5 * SECOND
    logins = PlantLogins(lambda: now)
    assert sum(logins.admit(PLANT) for _ in range(2 * MOST_AN_HOUR)) == MOST_AN_HOUR
    assert logins.admit(OTHER), "another plant"
    now += 36 * SECOND
    assert sum(logins.admit(PLANT) for _ in range(100)) == 10, "a hundredth of an hour"
    now += 3_600 * SECOND
    assert sum(logins.admit(PLANT) for _ in range(2 * MOST_AN_HOUR)) == MOST_AN_HOUR


def test_a_plant_that_logs_in_every_four_seconds_is_never_refused() -> None:
    now = 0
    logins = PlantLogins(lambda: now)
    for _ in range(10_000):
        now += 4 * SECOND
        assert logins.admit(PLANT)
