"""Import of plants from a CSV file: what will happen, errors by row, and what was registered."""

from collections.abc import Callable
from pathlib import Path

import psycopg
from playwright.sync_api import FilePayload, Page, Route, expect

from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

ROWS = """name;serialNumber;type;latitude;longitude
"Roof; east";SN-1;GATEWAY;50,0755;14,4378

Barn;SN-2;GATEWAY;91;14
Mill;SN Taken;PLANT;;
"""


def choose(page: Page, text: bytes) -> None:
    page.get_by_label("CSV file").set_input_files(FilePayload(name="plants.csv", mimeType="text/csv", buffer=text))


def names(database_url: str, slug: str) -> list[str]:
    with psycopg.connect(database_url) as db:
        rows = db.execute(
            "SELECT p.name FROM plant p JOIN organization o ON o.id = p.organization_id WHERE o.slug = %s ORDER BY p.name",
            (slug,),
        ).fetchall()
    return [name for (name,) in rows]


def test_errors_are_shown_by_row_and_valid_rows_are_registered(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page = watched.page
    member = user(role="OPERATOR")
    [slug] = member.slugs
    add_plants(database_url, slug, "Taken")
    member.log_in(page)
    page.get_by_role("link", name="Import", exact=True).click()
    watched.check_accessibility()
    choose(page, b"\xff\xfe")
    expect(page.get_by_text("The file is not text in UTF-8.")).to_be_visible()
    choose(page, b"name,serialNumber,type\n")
    expect(page.get_by_text("The file has no rows below its header.")).to_be_visible()
    choose(page, ROWS.encode())
    preview = page.get_by_role("region", name="What will happen")
    expect(preview).to_contain_text("3 plants are registered in Organisation 1.")
    expect(preview.get_by_role("cell", name="Roof; east")).to_be_visible()
    watched.check_accessibility()

    watched.allowed.append("status of 400")
    preview.get_by_role("button", name="Register").click()
    errors = page.get_by_role("region", name="Rows that were not registered")
    barn = errors.get_by_role("row").filter(has_text="SN-2")
    for text in ("4", "Barn", "latitude", "91"):
        expect(barn).to_contain_text(text)
    expect(errors.get_by_role("row").filter(has_text="SN Taken").filter(has_text="type")).to_contain_text("5")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was imported")
    assert names(database_url, slug) == ["Taken"]
    watched.check_accessibility()

    def send_late(route: Route) -> None:
        expect(page.get_by_label("CSV file")).to_be_disabled()  # another file would take away the report
        route.continue_()

    page.route("**/plants/import*", send_late)
    expect(preview).to_contain_text("If a row has an error, none is registered")
    preview.get_by_label("Register the valid rows even if others have errors").check()
    expect(preview).not_to_contain_text("none is registered")
    preview.get_by_role("button", name="Register").click()
    expect(page.get_by_text("1 plant was registered.")).to_be_visible()
    expect(page.get_by_text("2 rows were not.")).to_be_visible()
    expect(errors.get_by_role("row").filter(has_text="SN-2")).to_contain_text("latitude")
    assert names(database_url, slug) == ["Roof; east", "Taken"]
    watched.check_accessibility()
    page.get_by_role("link", name="Roof; east").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Roof; east")


def test_a_wrong_header_is_refused_and_another_file_chosen(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    member = user(role="ORG_ADMIN")
    member.log_in(page)
    page.goto(f"/console/o/{member.slugs[0]}/plants/new")
    page.get_by_role("link", name="Import plants").click()
    choose(page, b"name,serial\nBarn,SN-1\n")
    watched.allowed.append("status of 400")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("alert")).to_contain_text("header.serialNumber: is required")
    watched.check_accessibility()
    watched.check_width(390)
    choose(page, b"name,serialNumber,type\nBarn,SN-1,GATEWAY\n")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_text("1 plant was registered.")).to_be_visible()
    assert names(database_url, member.slugs[0]) == ["Barn"]
    watched.check_width(390)
    page.get_by_role("button", name="Another file").click()
    expect(page.get_by_label("CSV file")).to_be_enabled()
    expect(page.get_by_role("button", name="Register")).to_have_count(0)


def test_a_corrected_file_is_read_again(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str, tmp_path: Path
) -> None:
    page, member = watched.page, user(role="OPERATOR")
    watched.allowed.append("status of 400")
    member.log_in(page, f"/console/o/{(slug := member.slugs[0])}/plants/import")
    browser = page.context.new_cdp_session(page)
    file = tmp_path / "plants.csv"
    for plant_type in ("GATE", "GATEWAY"):
        file.write_text(f"name,serialNumber,type\nBarn,SN-1,{plant_type}\n")
        with page.expect_file_chooser():
            page.get_by_label("CSV file").click()
        # As a user chooses a file: Playwright itself reports a change also if it is the same one.
        document = browser.send("DOM.getDocument")["root"]["nodeId"]
        field = browser.send("DOM.querySelector", {"nodeId": document, "selector": "input[type=file]"})
        browser.send("DOM.setFileInputFiles", {"nodeId": field["nodeId"], "files": [str(file)]})
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("alert").or_(page.get_by_text("1 plant was registered."))).to_be_visible()
    assert names(database_url, slug) == ["Barn"]


def test_viewers_cannot_import(watched: Watched, user: Callable[..., ConsoleUser]) -> None:
    page, viewer = watched.page, user()
    viewer.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    expect(page.get_by_role("link", name="Import", exact=True)).to_have_count(0)
    page.goto(f"/console/o/{viewer.slugs[0]}/plants/import")
    expect(page.get_by_role("alert")).to_contain_text("Operator")
    expect(page.get_by_label("CSV file")).to_have_count(0)


def test_a_report_of_many_plants_says_that_there_are_more(watched: Watched, user: Callable[..., ConsoleUser]) -> None:
    page, member = watched.page, user(role="OPERATOR")
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/import")
    rows = "".join(f"Barn {number},SN-{number},GATEWAY\n" for number in range(203))
    choose(page, f"name,serialNumber,type\n{rows}".encode())
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("region", name="Registered plants")).to_contain_text("and 3 more")
