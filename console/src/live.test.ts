import { expect, test } from "vitest";
import type { FleetPlant } from "./fleet";
import { withPlants } from "./live";

const plant = (id: string, name: string) => ({ id, name }) as FleetPlant;

test("changed plants are replaced where they are, others stay the same objects", () => {
  const first = plant("a", "Roof");
  const page = { data: [first, plant("b", "Barn")], meta: { total: 2, nextCursor: null } };
  const list = { pages: [page], pageParams: [null] } as unknown as Parameters<typeof withPlants>[0];
  const changed = withPlants(list, new Map([["b", plant("b", "Hall")]]));
  expect(changed?.pages[0]?.data.map(({ name }) => name)).toEqual(["Roof", "Hall"]);
  expect(changed?.pages[0]?.data[0]).toBe(first);
});

test("a list that is not loaded stays so", () => {
  expect(withPlants(undefined, new Map())).toBeUndefined();
});
