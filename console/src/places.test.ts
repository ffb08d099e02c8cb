import { expect, test } from "vitest";
import { isTroubled, matching, type Place } from "./places";

function place(
  name: string,
  status: Place["properties"]["status"],
  worstAlert: Place["properties"]["worstAlert"],
  lifecycleStatus: Place["properties"]["lifecycleStatus"] = "ACTIVE",
): Place {
  const properties = { name, status, lifecycleStatus, worstAlert };
  return { type: "Feature", id: name, geometry: { type: "Point", coordinates: [14, 50] }, properties };
}

const PLACES = [
  place("Barn", "ONLINE", null),
  place("Barn roof", "OFFLINE", "INFO"),
  place("Mill", "UNKNOWN", "CRITICAL", "SUSPENDED"),
];
const names = (search: Parameters<typeof matching>[1]) => matching(PLACES, search).map(({ id }) => id);

test("offline plants and those with a warning or worse are troubled", () => {
  expect(PLACES.map(isTroubled)).toEqual([false, true, true]);
  expect(isTroubled(place("Hall", "ONLINE", "INFO"))).toBe(false);
  expect(isTroubled(place("Hall", "ONLINE", "WARNING"))).toBe(true);
  expect(isTroubled(place("Hall", "OFFLINE", "CRITICAL", "DECOMMISSIONED"))).toBe(false);
});

test("places are filtered as the list is", () => {
  expect(names({})).toEqual(["Barn", "Barn roof", "Mill"]);
  expect(names({ q: "BARN" })).toEqual(["Barn", "Barn roof"]);
  expect(names({ status: ["ONLINE", "UNKNOWN"] })).toEqual(["Barn", "Mill"]);
  expect(names({ alert: "ANY" })).toEqual(["Barn roof", "Mill"]);
  expect(names({ alert: "INFO" })).toEqual(["Barn roof", "Mill"]);
  expect(names({ alert: "WARNING" })).toEqual(["Mill"]);
  expect(names({ alert: "EMERGENCY" })).toEqual([]);
  expect(names({ alert: "NONE" })).toEqual(["Barn"]);
  expect(names({ lifecycleStatus: ["SUSPENDED", "PENDING"] })).toEqual(["Mill"]);
  expect(names({ q: "roof", status: ["ONLINE"] })).toEqual([]);
});
