import { expect, test } from "vitest";
import { count } from "../format/quantities";
import { de } from "./de";
import { en } from "./en";

test("large counts are written as the language writes them", () => {
  const english = count(12_345, "en-GB");
  expect(en.alerts.count(english, 12_345)).toBe("12,345 alerts");
  expect(en.rules.wouldRaise(english, 12_345)).toBe("The rule would have raised 12,345 alerts.");
  expect(en.templates.usage(english, "1")).toBe("12,345 plants, 1 device");
  expect([en.templates.usage("0", "1"), en.templates.usage("0", "0")]).toEqual(["1 device", "Not used"]);
  expect(de.alerts.count(count(12_345, "de"), 12_345)).toBe("12.345 Alarme");
  expect(de.alerts.count("1", 1)).toBe("1 Alarm");
  expect(de.templates.usage("1", count(12_345, "de"))).toBe("1 Anlage, 12.345 Geräte");
});
