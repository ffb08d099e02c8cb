import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { TimeZoneChoice } from "./ui/time-zone-choice";

vi.mock("./i18n", async () => ({
  useTexts: await import("./i18n/en").then(
    ({ en }) =>
      () =>
        en,
  ),
}));
vi.stubEnv("TZ", "Asia/Kolkata");

/** Return the options of the choice, each with its value and its text; a star marks the chosen one. */
function offered(plantZone: string, chosen?: string): string[][] {
  const html = renderToStaticMarkup(createElement(TimeZoneChoice, { plantZone, chosen, onChoose: () => undefined }));
  return [...html.matchAll(/<option value="(.*?)"( selected="")?>(.*?)<\/option>/g)].map(([, value, mark, text]) => [
    `${value}${mark ? " *" : ""}`,
    `${text}`.replaceAll("&#x27;", "'"),
  ]);
}

test("a zone is offered once, whatever name the browser has for it", () => {
  expect(offered("Asia/Kolkata")).toEqual([
    [" *", "The plant's zone (Asia/Kolkata)"],
    ["UTC", "UTC"],
  ]);
  expect(offered("Europe/Berlin", "Asia/Kolkata")).toEqual([
    ["", "The plant's zone (Europe/Berlin)"],
    ["UTC", "UTC"],
    ["Asia/Calcutta *", "This browser's zone (Asia/Calcutta)"],
  ]);
});

test("a plant's zone that the browser does not know is UTC, and the choice says so", () => {
  expect(offered("Mars/Olympus", "UTC")).toEqual([
    [" *", "UTC: this browser does not know Mars/Olympus"],
    ["Asia/Calcutta", "This browser's zone (Asia/Calcutta)"],
  ]);
});

test("another zone of a link is offered too", () => {
  expect(offered("Europe/Berlin", "Asia/Tokyo").at(-1)).toEqual(["Asia/Tokyo *", "Asia/Tokyo"]);
});
