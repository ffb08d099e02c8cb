import { expect, test } from "vitest";
import models from "../../src/gridfleet/domains/audit/models.py?raw";
import { type AuditEvent, eventText, factsOf } from "./changes";
import { de } from "./i18n/de";
import { changes as german } from "./i18n/de/changes";
import { en } from "./i18n/en";
import { changes } from "./i18n/en/changes";

const TEMPLATE = "00000000-0000-7000-8000-000000000001";
const OTHER = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d";
const names = new Map([[TEMPLATE, "Gridfleet plant"]]);

function shown(event: string, details: AuditEvent["details"], language: "en" | "de" = "en"): string[] {
  const words =
    language === "en" ? { texts: en, changes, locale: "en-GB" } : { texts: de, changes: german, locale: "de" };
  const facts = factsOf({ event, details } as AuditEvent, { ...words, names, timeZone: "UTC" });
  return facts.map(({ label, text }) => `${label}: ${text}`);
}

test("every event that the service records has a text", () => {
  const recorded = [...models.matchAll(/^ {4}[A-Z_]+ = "([a-z_]+\.[a-z_]+)"$/gm)].map(([, name]) => name);
  expect(recorded.length).toBeGreaterThan(80);
  expect(Object.keys(changes.events).sort()).toEqual(recorded.sort());
});

test("an event of a newer service has its own name", () => {
  expect(eventText(changes, "plant.created")).toBe("Plant registered");
  expect(eventText(changes, "plant.painted")).toBe("plant.painted");
});

test.each([
  { fields: changes.fields, texts: en },
  { fields: german.fields, texts: de },
])("what a form calls a setting, its changes call so too", ({ fields, texts: { rules, sandbox } }) => {
  const { metric, condition, threshold, cooldownMinutes, enabled, forSeconds, clearThreshold, autoResolve, unit } =
    fields;
  expect({
    metric,
    condition,
    threshold,
    cooldownMinutes,
    enabled,
    forSeconds,
    clearThreshold,
    autoResolve,
    unit,
  }).toEqual({
    metric: rules.metric,
    condition: rules.condition,
    threshold: rules.threshold,
    cooldownMinutes: rules.cooldown,
    enabled: rules.enabled,
    forSeconds: rules.forSeconds,
    clearThreshold: rules.clear,
    autoResolve: rules.autoResolve,
    unit: rules.unit,
  });
  expect(fields.externalPlantId).toBe(sandbox.externalId);
});

test("changes are from a value to another", () => {
  expect(shown("plant.changed", { name: ["Barn", "Old barn"], tag: [null, "A"], metadata: "changed" })).toEqual([
    "Name: Barn → Old barn",
    "Tag: – → A",
    "Metadata: changed",
  ]);
  expect(shown("alert_rule.changed", { threshold: [0.25, 1], severity: ["INFO", "CRITICAL"] }, "de")).toEqual([
    "Schwelle: 0,25 → 1",
    "Schweregrad: Information → Kritisch",
  ]);
  expect(shown("member.role_changed", { userId: OTHER, from: "VIEWER", to: "ORG_ADMIN" })).toEqual([
    ": Viewer → Administrator",
  ]);
});

test("ids are names, or are left out", () => {
  expect(shown("plant.changed", { templateId: [null, TEMPLATE] })).toEqual(["Template: – → Gridfleet plant"]);
  expect(shown("alert_rule.changed", { plantId: [null, OTHER] })).toEqual(["Plant: changed"]);
  expect(shown("plant_group.plants_added", { plants: 2, plantIds: [OTHER, TEMPLATE] })).toEqual(["Plants: 2"]);
});

test("values of a service are words", () => {
  expect(shown("plant.created", { name: "TOKEN", authMethod: "MTLS" }, "de")).toEqual([
    "Name: TOKEN",
    "Anmeldung: Zertifikat (mTLS)",
  ]);
  expect(shown("user.notifications_changed", { changed: ["phone", "paint"] })).toEqual([
    "Changed: Phone number; paint",
  ]);
  expect(shown("api_key.created", { scopes: ["plants:read", "vcp:read"] })).toEqual([
    "Rights: Read plants, devices and groups; Read sites",
  ]);
  expect(shown("plant.token_issued", { expiresAt: "2026-11-23T09:15:00Z" })).toEqual([
    "Valid until: 23 Nov 2026, 09:15:00 UTC",
  ]);
});
