import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { alertsInRangeQuery } from "./alerts";
import { allSubDevicesQuery } from "./devices";
import { en } from "./i18n/en";
import { useMetricNames } from "./metrics";
import { usePlantEvents } from "./screens/plant-events";
import { templatesOfAllLevelsQuery } from "./templates";

vi.mock("./i18n", () => ({ useTexts: () => en, useLocale: () => "en" }));

const RANGE = { from: "2026-11-23T00:00:00Z", to: "2026-11-24T00:00:00Z" };
const ALERT = {
  message: "BAT1.soc 5 % is below 10 %",
  metric: "BAT1.soc",
  value: 5,
  unit: "%",
  condition: "LT",
  threshold: 10,
  measuredAt: "2026-11-23T08:15:02Z",
};

test("a history marks alerts with the names that its table has for metrics", () => {
  const client = new QueryClient();
  const template = { id: "t", signals: [{ key: "soc", label: "State of charge" }] };
  const device = { externalId: "BAT1", name: "Battery in the barn", templateId: "t" };
  client.setQueryData(alertsInRangeQuery("o", "p", RANGE).queryKey, { data: [ALERT], meta: { total: 1 } } as never);
  client.setQueryData(allSubDevicesQuery("o", "p").queryKey, [device] as never);
  client.setQueryData(templatesOfAllLevelsQuery.queryKey, [template] as never);
  const Shown = () => {
    const nameOf = useMetricNames("o", "p", en.templates.labelOf);
    return usePlantEvents("o", "p", RANGE, "UTC", nameOf).marks.map(({ label }) => label);
  };
  expect(renderToStaticMarkup(createElement(QueryClientProvider, { client }, createElement(Shown)))).toBe(
    "Nov 23, 2026, 08:15:02 UTC · Battery in the barn: State of charge 5\u00a0%, below 10\u00a0%",
  );
});
