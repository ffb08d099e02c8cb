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
  expect(en.fleet.fresh(english, 12_345, english)).toBe("12,345 plants, 12,345 too old");
  expect(en.fleet.unregistered(english, 12_345)).toContain("of 12,345 devices are");
  expect(de.devices.unknown("BAT1", "12.345", 12_345)).toContain("(12.345 Nachrichten)");
});

test("one is singular", () => {
  expect([en.fleet.fresh("1", 1, "0"), de.fleet.fresh("1", 1, "0")]).toEqual(["1 plant", "1 Anlage"]);
  expect(en.devices.unknown("BAT1", "1", 1)).toContain("(1 message)");
  expect(de.devices.unknown("BAT1", "1", 1)).toContain("(1 Nachricht)");
  expect([en.devices.signals(1), de.devices.signals(1)].join()).toMatch(/ 1 signal with its .* 1 Messgröße mit ihrer /);
  expect([en.devices.expires(1), de.devices.expires(1)].join()).toMatch(/ 1 second\..* 1 Sekunde /);
  expect([en.import.moreErrors("1", 1), de.import.moreErrors("1", 1)].join()).toMatch(
    /1 more error,.*1 weiterer Fehler/,
  );
});

test("what a rule waits after an alert is not called like the hours without notifications", () => {
  expect(de.rules.cooldown).not.toContain("Ruhezeit");
});
