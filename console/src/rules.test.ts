import { expect, test } from "vitest";
import { type AlertRule, ruleChanges, ruleOf, watchedMetrics } from "./rules";

function formOf(values: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) form.set(name, value);
  return form;
}

const FIELDS = {
  name: " Low battery ",
  metric: "soc",
  condition: "LT",
  threshold: "-1.5",
  unit: "",
  severity: "CRITICAL",
  forSeconds: "60",
  clearThreshold: "",
  cooldownMinutes: "15",
};

test("optional fields that are empty are null, and boxes that are not checked are false", () => {
  expect(ruleOf(formOf(FIELDS), null)).toEqual({
    name: "Low battery",
    plantId: null,
    metric: "soc",
    condition: "LT",
    threshold: -1.5,
    unit: null,
    severity: "CRITICAL",
    forSeconds: 60,
    clearThreshold: null,
    cooldownMinutes: 15,
    autoResolve: false,
    enabled: false,
  });
  const filled = ruleOf(formOf({ ...FIELDS, unit: "%", clearThreshold: "0", autoResolve: "on", enabled: "on" }), "id");
  expect(filled).toMatchObject({ plantId: "id", unit: "%", clearThreshold: 0, autoResolve: true, enabled: true });
});

test("a rule with another metric keeps the unit that the form shows, and one with the same metric sends no unit", () => {
  const shown = { ...ruleOf(formOf({ ...FIELDS, unit: "kW" }), null), id: "rule" } as AlertRule;
  const changesTo = (values: Record<string, string>) =>
    ruleChanges(shown, ruleOf(formOf({ ...FIELDS, ...values }), null));
  expect(changesTo({ unit: "kW", metric: "active_power" })).toEqual({ metric: "active_power", unit: "kW" });
  expect(changesTo({ unit: "kW", threshold: "5" })).toEqual({ threshold: 5 });
  expect(changesTo({ unit: "", metric: "active_power" })).toEqual({ metric: "active_power", unit: null });
});

test("a key is watched on the plant and its devices, a full name on one", () => {
  const metrics = ["soc", "BAT1.soc", "BAT.2.soc", "BAT1.soc_raw", "xsoc"];
  expect(watchedMetrics("soc", metrics)).toEqual(["soc", "BAT1.soc", "BAT.2.soc"]);
  expect(watchedMetrics("BAT1.soc", metrics)).toEqual(["BAT1.soc"]);
});
