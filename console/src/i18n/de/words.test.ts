import { expect, test } from "vitest";
import system from "../../../../src/gridfleet/domains/device_templates/system_templates.py?raw";
import { de } from ".";

test("the state of charge has one name", () => {
  const { fleet, flow, templates, trading } = de;
  expect([fleet.soc, flow.soc, templates.roles.soc]).toEqual(Array(3).fill("Ladezustand"));
  expect(trading.limits.socMin).toContain("Ladezustand");
  expect(JSON.stringify(de)).not.toContain("Ladestand");
});

test("the labels of the system templates are translated", () => {
  const strings = system.replace(/"""[\s\S]*?"""/g, "").matchAll(/"([A-Z][a-z][^"]*)"/g);
  const labels = [...strings]
    .map(([, label = ""]) => label)
    .filter((label) => !/^(Hz|SystemTemplate|Gridfleet .+)$/.test(label));
  expect(labels.length).toBeGreaterThan(25);
  expect(labels.filter((label) => de.templates.labelOf(label) === label)).toEqual([]);
});
