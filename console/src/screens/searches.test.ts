import { expect, test } from "vitest";
import { alertSearch } from "../alerts";
import { peopleSearch } from "../people";
import { auditSearch } from "./audit-search";
import { newPlantSearch } from "./plant-new-search";

const PLANT = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d";

test("a later step needs a plant", () => {
  expect(newPlantSearch({ step: 3 })).toEqual({});
  expect(newPlantSearch({ plant: "../x", step: 3 })).toEqual({});
  expect(newPlantSearch({ plant: PLANT, step: "3" })).toEqual({ plant: PLANT, step: 3 });
  expect(newPlantSearch({ plant: PLANT, step: 9 })).toEqual({ plant: PLANT, step: 2 });
});

test("a link to changes keeps what exists", () => {
  expect(auditSearch({ subject: "PLANT", page: "3" })).toEqual({ subject: "PLANT", page: 3 });
  expect(auditSearch({ subject: "NOTHING", page: -1 })).toEqual({});
});

test("a link to people keeps a text of a possible length", () => {
  expect(peopleSearch({ q: "otto" })).toEqual({ q: "otto" });
  expect(peopleSearch({ q: "" })).toEqual({});
  expect(peopleSearch({ q: "x".repeat(101) })).toEqual({});
  expect(peopleSearch({ q: 5 })).toEqual({});
});

test("a link to alerts keeps what exists", () => {
  expect(alertSearch({ status: ["ACTIVE", "GONE"], severity: ["CRITICAL"], page: "2" })).toEqual({
    status: ["ACTIVE"],
    severity: ["CRITICAL"],
    page: 2,
  });
  expect(alertSearch({ status: "ACTIVE", severity: ["ALL"], page: 1001 })).toEqual({});
});
