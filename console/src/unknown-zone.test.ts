import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { dateTime } from "./format/times";
import { findOrganization } from "./organizations";
import { plantQuery, useTimeZone } from "./plants";
import type { SessionOrganization, SessionUser } from "./session";

const TIME = "2026-11-23T08:15:02Z";
const ORGANIZATION: SessionOrganization = {
  id: "o",
  name: "Demo",
  slug: "demo",
  timeZone: "Mars/Olympus",
  role: "VIEWER",
};

test("times of an organisation whose zone the browser does not know are in UTC", async () => {
  const user = { organizations: [ORGANIZATION], isSuperAdmin: false } as unknown as SessionUser;
  const { timeZone } = await findOrganization(new QueryClient(), user, "demo");
  expect(dateTime(TIME, timeZone, "en")).toBe("Nov 23, 2026, 08:15:02 UTC");
});

test.each([
  ["Mars/Olympus", "Nov 23, 2026, 08:15:02 UTC"],
  ["Asia/Kolkata", "Nov 23, 2026, 13:45:02 GMT+5:30"],
])("times of a plant in %s are shown as %s", (effectiveTimeZone, shown) => {
  const client = new QueryClient();
  client.setQueryData(plantQuery("o", "p").queryKey, { effectiveTimeZone } as never);
  const Shown = () => dateTime(TIME, useTimeZone(ORGANIZATION, "p"), "en");
  expect(renderToStaticMarkup(createElement(QueryClientProvider, { client }, createElement(Shown)))).toBe(shown);
});
