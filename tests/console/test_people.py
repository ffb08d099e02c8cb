"""Members, invitations, the log of changes, and the user's own account."""

from collections.abc import Callable
from uuid import UUID

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import PASSWORD, ConsoleUser, add_plants
from support.clients.watched_page import Watched
from support.servers.served import Served

User = Callable[..., ConsoleUser]


@pytest.fixture
def administrator(watched: Watched, user: User) -> ConsoleUser:
    """Log in as an administrator of an organisation."""
    made = user(role="ORG_ADMIN")
    made.log_in(watched.page)
    return made


def open_screen(page: Page, name: str, heading: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def test_a_person_is_invited_and_the_invitation_revoked(watched: Watched, administrator: ConsoleUser) -> None:
    page = watched.page
    open_screen(page, "People", "People")
    page.get_by_label("E-mail address").fill("new@example.com")
    page.get_by_label("Role", exact=True).select_option("Operator")
    page.get_by_role("button", name="Invite").click()
    invited = page.get_by_role("row").filter(has_text="new@example.com")
    expect(invited).to_contain_text("Operator")
    expect(invited).to_contain_text("Open")
    watched.check_accessibility()
    invited.get_by_role("button", name="Revoke").click()
    confirm = page.get_by_role("dialog", name="Revoke the invitation of new@example.com?")
    expect(confirm).to_contain_text("it no longer leads into Organisation 1")
    watched.check_accessibility()
    expect(confirm.get_by_role("button", name="Revoke")).to_be_disabled()
    confirm.get_by_role("button", name="Cancel").click()
    expect(invited).to_contain_text("Open")
    invited.get_by_role("button", name="Revoke").click()
    confirm.get_by_label("to confirm").fill("new@example.com")
    confirm.get_by_role("button", name="Revoke").click()
    expect(confirm).to_have_count(0)
    expect(invited).to_contain_text("Revoked")

    open_screen(page, "Changes", "Changes")
    expect(page.get_by_role("row").filter(has_text="invitation.revoked")).to_have_count(1)
    page.get_by_label("What was changed").select_option("Plants")
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    watched.check_accessibility()
    page.get_by_label("What was changed").select_option("Invitations")
    expect(page.get_by_role("row").filter(has_text="invitation.revoked")).to_have_count(1)


def test_an_invitation_that_was_accepted_without_registering_is_revoked(
    watched: Watched, administrator: ConsoleUser, database_url: str
) -> None:
    """Its link leads to a membership for the rest of seven days."""
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO invitation (id, organization_id, email, role, status, token_hash, invited_by, expires_at, accepted_at,"
            " used_at) SELECT gen_random_uuid(), o.id, i.email, 'ORG_ADMIN', 'ACCEPTED', sha256(i.email::bytea), m.user_id,"
            " now() + i.valid, now(), i.used_at FROM organization o JOIN membership m ON m.organization_id = o.id,"
            " (VALUES ('open@example.com', interval '1 day', NULL), ('late@example.com', interval '-1 day', NULL),"
            " ('joined@example.com', interval '1 day', now())) AS i (email, valid, used_at) WHERE o.slug = %s",
            [administrator.slugs[0]],
        )
    page = watched.page
    open_screen(page, "People", "People")
    invitations = page.get_by_role("region", name="Invitations")
    expect(invitations.get_by_role("row").filter(has_text="Accepted")).to_have_count(3)
    invitations.get_by_role("button", name="Revoke").click()
    confirm = page.get_by_role("dialog", name="Revoke the invitation of open@example.com?")
    confirm.get_by_label("to confirm").fill("open@example.com")
    confirm.get_by_role("button", name="Revoke").click()
    expect(invitations.get_by_role("row").filter(has_text="open@")).to_contain_text("Revoked")
    expect(invitations.get_by_role("button", name="Revoke")).to_have_count(0)


def add_members(database_url: str, slug: str, count: int) -> list[UUID]:
    """Add members named "Member 000" and so on to an organisation. Returns the ids of the users."""
    ids = [new_id() for _ in range(count)]
    with psycopg.connect(database_url) as db, db.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO user_account (id, email, name, password_hash) VALUES (%s, %s, %s, %s)",
            [(user_id, f"{user_id}@example.com", f"Member {number:03}", "none") for number, user_id in enumerate(ids)],
        )
        cursor.executemany(
            "INSERT INTO membership (id, organization_id, user_id, role)"
            " SELECT %s, id, %s, 'VIEWER' FROM organization WHERE slug = %s",
            [(new_id(), user_id, slug) for user_id in ids],
        )
    return ids


def test_changes_are_filtered_by_who_made_them(watched: Watched, administrator: ConsoleUser, database_url: str) -> None:
    page, slug = watched.page, administrator.slugs[0]
    members, program = add_members(database_url, slug, 110), new_id()
    with psycopg.connect(database_url) as db:
        for event, actor_type, actor in (
            ("plant.updated", "USER", members[0]),
            ("plant.deleted", "USER", members[109]),
            ("command.issued", "API_KEY", program),
        ):
            db.execute(
                "INSERT INTO audit_event (id, event, organization_id, actor_type, actor_id, created_at)"
                " SELECT %s, %s, id, %s, %s, now() FROM organization WHERE slug = %s",
                (new_id(), event, actor_type, str(actor), slug),
            )
    page.goto(f"/console/o/{slug}/audit")
    events = page.get_by_role("rowheader")
    expect(events).to_have_count(4)
    page.get_by_role("link", name="Show only changes by Member 109").click()
    expect(events).to_contain_text(["Plant deleted"])
    expect(page.get_by_role("combobox", name="By")).to_have_value(str(members[109]))
    page.reload()
    expect(events).to_contain_text(["Plant deleted"])
    watched.check_accessibility()
    # As logs have it.
    page.get_by_text("plant.deleted", exact=True).click()
    expect(page.get_by_text('"subjectId": null')).to_be_visible()
    watched.check_accessibility()
    page.get_by_role("combobox", name="By").select_option("Member 000")
    # An event of another version of the service.
    expect(events).to_contain_text(["plant.updated"])
    page.get_by_role("combobox", name="By").select_option("All")
    # A key is no member, and can be chosen by its event alone.
    page.get_by_role("link", name=f"Show only changes by {program}").click()
    expect(events).to_contain_text(["Command issued"])
    expect(page.get_by_role("combobox", name="By")).to_have_value(str(program))
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    watched.check_accessibility()


def test_members_beyond_a_page_are_reached(watched: Watched, administrator: ConsoleUser, database_url: str) -> None:
    add_members(database_url, administrator.slugs[0], 110)
    page = watched.page
    open_screen(page, "People", "People")
    members = page.get_by_role("region", name="Members")
    expect(members.get_by_role("rowheader")).to_have_count(100)
    shown = set(members.get_by_role("rowheader").all_inner_texts())
    members.get_by_role("button", name="Next page").click()
    expect(members.get_by_role("rowheader")).to_have_count(11)
    assert shown.isdisjoint(members.get_by_role("rowheader").all_inner_texts())
    watched.check_accessibility()


def test_invitations_beyond_a_page_are_reached(watched: Watched, administrator: ConsoleUser, database_url: str) -> None:
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO invitation (id, organization_id, email, role, token_hash, invited_by, expires_at, created_at)"
            " SELECT gen_random_uuid(), o.id, format('invited-%%s@example.com', n), 'VIEWER', sha256(n::text::bytea),"
            " m.user_id, now() + interval '7 days', now() - n * interval '1 second'"
            " FROM organization o JOIN membership m ON m.organization_id = o.id, generate_series(1, 110) n WHERE o.slug = %s",
            [administrator.slugs[0]],
        )
    page = watched.page
    open_screen(page, "People", "People")
    invitations = page.get_by_role("region", name="Invitations")
    expect(invitations.get_by_role("rowheader")).to_have_count(100)
    invitations.get_by_role("button", name="Next page").click()
    expect(invitations.get_by_role("rowheader").last).to_have_text("invited-110@example.com")
    invitations.get_by_role("row").filter(has_text="invited-110@").get_by_role("button", name="Revoke").click()
    confirm = page.get_by_role("dialog")
    confirm.get_by_label("to confirm").fill("invited-110@example.com")
    confirm.get_by_role("button", name="Revoke").click()
    expect(invitations.get_by_role("row").filter(has_text="invited-110@")).to_contain_text("Revoked")
    watched.check_accessibility()
    invitations.get_by_label("E-mail address").fill("newest@example.com")
    invitations.get_by_role("button", name="Invite").click()
    expect(invitations.get_by_role("rowheader").first).to_have_text("newest@example.com")


def test_members_are_found_change_roles_and_leave(
    watched: Watched, service: Served, administrator: ConsoleUser, user: User
) -> None:
    other = user(organizations=0, name="Otto Other", joins=administrator.slugs)
    page = watched.page
    open_screen(page, "People", "People")
    search = page.get_by_label("Search name or address")
    own, found = (page.get_by_role("row").filter(has_text=one.email) for one in (administrator, other))
    expect(own).to_have_count(1)
    # Users cannot remove their own rights by mistake.
    expect(own.get_by_label("Role of Vera Viewer")).to_be_disabled()
    expect(own.get_by_role("button", name="Remove")).to_have_count(0)
    search.fill("otto")
    expect(own).to_have_count(0)
    expect(found).to_have_count(1)
    search.fill("nothing has this name")
    expect(page.get_by_text("No member matches this search.")).to_be_visible()
    watched.check_accessibility()
    search.fill("otto")
    expect(found).to_have_count(1)

    role = found.get_by_label("Role of Otto Other")
    expect(role).to_have_value("VIEWER")
    dialog = page.get_by_role("dialog")
    change = dialog.get_by_role("button", name="Change the role")
    # One key changes a choice of the keyboard.
    role.press("ArrowDown")
    expect(dialog).to_contain_text("The new role in Organisation 1 is Operator.")
    watched.check_accessibility()
    page.keyboard.press("Escape")
    expect(role).to_have_value("VIEWER")
    with watched.held("**/members/*"):
        role.select_option("Administrator")
        change.click()
        expect(change).to_be_disabled()
    expect(dialog).to_have_count(0)
    expect(role).to_have_value("ORG_ADMIN")
    page.reload()
    expect(role).to_have_value("ORG_ADMIN")
    watched.allowed.append("ERR_FAILED")
    page.route("**/members/*", lambda route: route.abort())
    role.select_option("Operator")
    change.click()
    expect(dialog.get_by_role("alert")).to_contain_text("The service cannot be reached")
    dialog.get_by_role("button", name="Cancel").click()
    expect(role).to_have_value("ORG_ADMIN")
    page.unroute("**/members/*")

    found.get_by_role("button", name="Remove").click()
    expect(dialog).to_contain_text("Otto Other")
    remove = dialog.get_by_role("button", name="Remove")
    dialog.get_by_role("textbox").fill("Otto")
    expect(remove).to_be_disabled()
    dialog.get_by_role("textbox").fill("Otto Other")
    remove.click()
    # Chromium ignores what is typed beside an open dialog.
    expect(dialog).to_have_count(0)
    expect(found).to_have_count(0)
    # The address keeps the search, so the reloaded page searches for the same.
    search.fill("")
    expect(own).to_have_count(1)
    with httpx.Client(base_url=f"{service.url}/api/v1") as client:
        client.post("/auth/login", json={"email": other.email, "password": PASSWORD}).raise_for_status()
        assert client.get("/auth/me").raise_for_status().json()["user"]["organizations"] == []


def test_viewers_see_neither_people_nor_changes(watched: Watched, user: User) -> None:
    page = watched.page
    made = user()
    made.log_in(page)
    expect(page.get_by_role("link", name="Fleet", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="People", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="New plant")).to_have_count(0)
    watched.allowed.append("status of 403")
    page.goto(f"/console/o/{made.slugs[0]}/people")
    expect(page.get_by_role("alert").first).to_be_visible()


@pytest.mark.parametrize(("role", "is_notified"), [("VIEWER", False), ("OPERATOR", True)])
def test_who_gets_no_notifications_reads_it(watched: Watched, user: User, role: str, is_notified: bool) -> None:
    member = user(role=role)
    member.log_in(watched.page, f"/console/o/{member.slugs[0]}/me")
    notifications = watched.page.get_by_role("region", name="Notifications", exact=True)
    expect(notifications.get_by_text("those of organisations in which you are operator or administrator")).to_be_visible()
    expect(notifications.get_by_text("You receive no alerts now")).to_have_count(0 if is_notified else 1)
    watched.check_accessibility()


def test_own_name_password_and_notifications_are_changed(watched: Watched, administrator: ConsoleUser) -> None:
    page = watched.page
    page.get_by_text("Vera Viewer").click()
    open_screen(page, "My account", "My account")
    profile = page.get_by_role("region", name="Profile")
    profile.get_by_label("Name").fill("Vera Neu")
    profile.get_by_role("button", name="Save").click()
    expect(profile.get_by_text("Saved")).to_be_visible()
    expect(page.get_by_role("banner").get_by_text("Vera Neu")).to_be_visible()

    notifications = page.get_by_role("region", name="Notifications")
    box = notifications.get_by_role("checkbox", name="E-mail: Information")
    before = box.is_checked()
    with watched.held("**/notifications/preferences"):
        box.set_checked(not before)
        expect(notifications.get_by_role("status")).to_have_text("Saving …")
        expect(box).to_be_disabled()
    expect(notifications.get_by_role("status")).to_have_text("Saved")
    page.reload()
    expect(box).to_be_checked(checked=not before)
    expect(
        page.get_by_role("region", name="Sessions").get_by_role("row", name="Chrome on Linux").get_by_text("this session")
    ).to_be_visible()
    watched.check_accessibility()

    watched.allowed.append("status of 400")
    watched.allowed.append("status of 401")
    password = page.get_by_role("region", name="Password")
    password.get_by_label("Current password").fill("not the password 1!")
    password.get_by_label("New password").fill("Another horse 2!")
    password.get_by_role("button", name="Change the password").click()
    expect(password.get_by_role("alert")).to_be_visible()
    password.get_by_label("Current password").fill(PASSWORD)
    password.get_by_role("button", name="Change the password").click()
    expect(password.get_by_text("Saved")).to_be_visible()


def test_quiet_hours_are_set_and_removed(watched: Watched, administrator: ConsoleUser) -> None:
    page = watched.page
    page.goto(f"/console/o/{administrator.slugs[0]}/me")
    hours = page.get_by_role("region", name="Quiet hours")
    hours.get_by_label("From").fill("22:00")
    hours.get_by_label("To", exact=True).fill("07:30")
    hours.get_by_label("Time zone").fill("Europe/Wien")
    watched.allowed.append("status of 400")
    hours.get_by_role("button", name="Save").click()
    expect(hours.get_by_role("alert")).to_contain_text("timeZone")
    hours.get_by_label("Time zone").fill("Europe/Vienna")
    hours.get_by_role("button", name="Save").click()
    expect(hours).to_contain_text("wait until the hours end: Information, Warning, Critical.")
    expect(hours.get_by_role("button", name="Remove the quiet hours")).to_be_visible()
    watched.check_accessibility()
    page.reload()
    expect(hours.get_by_label("To", exact=True)).to_have_value("07:30")
    expect(hours.get_by_label("Time zone")).to_have_value("Europe/Vienna")
    hours.get_by_role("button", name="Remove the quiet hours").click()
    expect(hours.get_by_label("From")).to_have_value("")


def test_own_deliveries_are_listed_with_the_reason_of_a_failure(
    watched: Watched, administrator: ConsoleUser, database_url: str
) -> None:
    page = watched.page
    page.goto(f"/console/o/{administrator.slugs[0]}/me")
    sent = page.get_by_role("region", name="Sent notifications")
    expect(sent).to_contain_text("Nothing was sent to you yet.")
    page.get_by_role("row").filter(has_text="E-mail").get_by_role("button", name="Send a test").click()
    test = sent.get_by_role("row").filter(has_text="Test message")
    # No process sends it in this test.
    expect(test).to_contain_text("Waits")
    with psycopg.connect(database_url) as db:
        db.execute(
            "UPDATE notification_log SET status = 'FAILED', due_at = NULL, error = 'mailbox unavailable' WHERE address = %s",
            (administrator.email,),
        )
        db.execute(
            "INSERT INTO notification_log (id, user_id, channel, address, subject, body, created_at)"
            " SELECT gen_random_uuid(), id, 'PUSH', 'x', format('Older %%s', n), '', now() - n * interval '1 minute'"
            " FROM user_account, generate_series(1, 25) n WHERE email = %s",
            (administrator.email,),
        )
    page.reload()
    expect(test).to_contain_text("E-mail")
    expect(test).to_contain_text("Failed")
    expect(test).to_contain_text("mailbox unavailable")
    expect(test).to_contain_text("UTC")
    watched.check_accessibility()
    sent.get_by_role("button", name="Next page").click()
    expect(sent.get_by_role("rowheader").last).to_have_text("Older 25")
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)


def test_a_phone_number_is_stored_for_text_messages(watched: Watched, administrator: ConsoleUser) -> None:
    page = watched.page
    page.goto(f"/console/o/{administrator.slugs[0]}/me")
    notifications = page.get_by_role("region", name="Notifications", exact=True)
    test = notifications.get_by_role("row").filter(has_text="SMS").get_by_role("button", name="Send a test")
    watched.allowed.append("status of 400")
    test.click()
    expect(notifications.get_by_role("alert")).to_contain_text("phone number")
    phone = page.get_by_role("region", name="Text messages")
    phone.get_by_label("Phone number").fill("0123")
    phone.get_by_role("button", name="Save").click()
    expect(phone.get_by_role("alert")).to_contain_text("must be an international number")
    watched.check_accessibility()
    phone.get_by_label("Phone number").fill("+420 123-456 789")
    phone.get_by_role("button", name="Save").click()
    expect(phone.get_by_role("status")).to_have_text("Saved")
    expect(phone.get_by_label("Phone number")).to_have_value("+420123456789")
    test.click()
    expect(notifications.get_by_text("A test message is on its way.")).to_be_visible()
    page.reload()
    expect(phone.get_by_label("Phone number")).to_have_value("+420123456789")
    sent = page.get_by_role("region", name="Sent notifications")
    expect(sent.get_by_role("row").filter(has_text="SMS")).to_have_count(1)
    phone.get_by_role("button", name="Remove the number").click()
    expect(phone.get_by_role("status")).to_have_text("Saved")
    expect(phone.get_by_label("Phone number")).to_have_value("")
    expect(phone.get_by_role("button", name="Remove the number")).to_be_disabled()
    test.click()
    expect(notifications.get_by_role("alert")).to_contain_text("phone number")


def test_a_link_to_the_changes_of_a_plant_says_who_sees_them(watched: Watched, user: User, database_url: str) -> None:
    page, viewer = watched.page, user()
    [plant] = add_plants(database_url, viewer.slugs[0], "Barn")
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/plants/{plant}/audit")
    expect(page.get_by_role("alert")).to_contain_text("Administrator")
