import { environmentManager, InfiniteQueryObserver, QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { type FleetPlant, fleetPlantQuery, plantsQuery } from "./fleet";
import { applyEvent, withPlants } from "./live";
import { placesQuery } from "./places";

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

afterEach(() => void vi.useRealTimers());

test("events that follow each other do not keep lists from being read again", async () => {
  vi.useFakeTimers();
  environmentManager.setIsServer(() => false);
  const queryClient = new QueryClient();
  const reads = { plants: 0, places: 0, plant: 0 };
  const readPlants = async () => {
    reads.plants++;
    return { data: [plant("a", "Roof")], meta: { total: 1, nextCursor: null } };
  };
  const readPlaces = async () => {
    reads.places++;
    return { features: [], withoutPlace: 0 };
  };
  const readPlant = async () => {
    reads.plant++;
    return null;
  };
  const always = { refetchIntervalInBackground: true };
  const ends = [
    new InfiniteQueryObserver(queryClient, {
      ...plantsQuery("o", {}),
      ...always,
      queryFn: readPlants as never,
    }).subscribe(() => {}),
    new QueryObserver(queryClient, { ...placesQuery("o"), ...always, queryFn: readPlaces as never }).subscribe(
      () => {},
    ),
    new QueryObserver(queryClient, { ...fleetPlantQuery("o", "a"), ...always, queryFn: readPlant as never }).subscribe(
      () => {},
    ),
  ];
  for (let events = 0; events < 4 * 125; events++) {
    await vi.advanceTimersByTimeAsync(250);
    applyEvent(queryClient, "o", "plants", JSON.stringify([plant("a", `Roof ${events}`)]));
  }
  for (const end of ends) end();
  expect(reads).toEqual({ plants: 5, places: 3, plant: 9 });
});

test("an event leaves what is to be read again as it was", () => {
  const queryClient = new QueryClient();
  const key = plantsQuery("o", {}).queryKey;
  const page = { data: [plant("a", "Roof")], meta: { total: 1, nextCursor: null } };
  queryClient.setQueryData(key, { pages: [page], pageParams: [null] } as never, { updatedAt: 1_000 });
  const event = JSON.stringify([plant("a", "Barn")]);
  applyEvent(queryClient, "o", "plants", event);
  const query = queryClient.getQueryCache().find({ queryKey: key });
  expect(query?.state.dataUpdatedAt).toBe(1_000);
  query?.invalidate();
  applyEvent(queryClient, "o", "plants", event);
  expect(query?.isStaleByTime(10_000)).toBe(true);
});
