import { expect, test } from "vitest";
import { de } from ".";

test("the state of charge has one name", () => {
  const { fleet, flow, templates, trading } = de;
  expect([fleet.soc, flow.soc, templates.roles.soc]).toEqual(Array(3).fill("Ladezustand"));
  expect(trading.limits.socMin).toContain("Ladezustand");
  expect(JSON.stringify(de)).not.toContain("Ladestand");
});
