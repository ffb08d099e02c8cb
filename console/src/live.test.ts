import { environmentManager, InfiniteQueryObserver, QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { alertsQuery } from "./alerts";
import { type FleetPlant, fleetPlantQuery, plantsOf, plantsQuery } from "./fleet";
import { applyEvent, streamUntil, withPlants } from "./live";
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

test("a plant that moved to a further page is listed once, with its newer values", () => {
  const page = (...data: FleetPlant[]) => ({ data, meta: { limit: 2, total: 3, nextCursor: null } });
  const pages = [page(plant("a", "Roof"), plant("b", "Barn")), page(plant("b", "Hall"), plant("c", "Mill"))];
  expect(plantsOf(pages).map(({ name }) => name)).toEqual(["Roof", "Hall", "Mill"]);
});

test("a list that is not loaded stays so", () => {
  expect(withPlants(undefined, new Map())).toBeUndefined();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

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

test("a list of many pages is read again too, in proportion to their number", async () => {
  vi.useFakeTimers();
  environmentManager.setIsServer(() => false);
  const queryClient = new QueryClient();
  let reads = 0;
  const readPage = async ({ pageParam }: { pageParam: string | null }) => {
    reads++;
    const number = Number(pageParam ?? 0);
    return { data: [plant(`${number}`, "Roof")], meta: { total: 9, nextCursor: String(number + 1) } };
  };
  const query = { ...plantsQuery("o", {}), refetchIntervalInBackground: true, queryFn: readPage as never };
  const list = new InfiniteQueryObserver(queryClient, query);
  const end = list.subscribe(() => {});
  await vi.advanceTimersByTimeAsync(10);
  for (let pages = 1; pages < 6; pages++) await list.fetchNextPage();
  reads = 0;
  await vi.advanceTimersByTimeAsync(59_000);
  expect(reads).toBe(0);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(reads).toBe(6);
  end();
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

const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("events that come faster than the service responds do not keep a list from being read", async () => {
  vi.useFakeTimers();
  environmentManager.setIsServer(() => false);
  const queryClient = new QueryClient();
  let raised = 0;
  const read = async () => {
    const seen = raised;
    await wait(400);
    return seen;
  };
  const query = alertsQuery("o", {});
  const end = new QueryObserver(queryClient, { ...query, queryFn: read as never }).subscribe(() => {});
  await vi.advanceTimersByTimeAsync(400);
  const behind: number[] = [];
  for (; raised < 40; behind.push(raised - Number(queryClient.getQueryData(query.queryKey)))) {
    raised++;
    applyEvent(queryClient, "o", "alerts", "[]");
    await vi.advanceTimersByTimeAsync(250);
  }
  expect(Math.max(...behind)).toBeLessThan(5);
  await vi.advanceTimersByTimeAsync(800);
  expect(queryClient.getQueryData(query.queryKey)).toBe(40);
  end();
});

test("an event that comes while a further page is read is not lost", async () => {
  vi.useFakeTimers();
  environmentManager.setIsServer(() => false);
  const queryClient = new QueryClient();
  const query = plantsQuery("o", {});
  const read = async ({ pageParam }: { pageParam: string | null }) => {
    await wait(100);
    const first = { data: [plant("a", "Roof")], meta: { total: 2, nextCursor: "2" } };
    return pageParam === null ? first : { data: [plant("b", "Barn")], meta: { total: 2, nextCursor: null } };
  };
  const list = new InfiniteQueryObserver(queryClient, { ...query, queryFn: read as never });
  const end = list.subscribe(() => {});
  await vi.advanceTimersByTimeAsync(100);
  void list.fetchNextPage();
  await vi.advanceTimersByTimeAsync(50);
  applyEvent(queryClient, "o", "plants", JSON.stringify([plant("a", "Hall"), plant("b", "Mill")]));
  await vi.advanceTimersByTimeAsync(50);
  const pages = queryClient.getQueryData(query.queryKey)?.pages;
  expect(pages?.flatMap(({ data }) => data.map(({ name }) => name))).toEqual(["Hall", "Mill"]);
  end();
});

test("a stream that ends while the silent service is asked is opened once", async () => {
  vi.useFakeTimers();
  const sources: Source[] = [];
  class Source {
    static readonly CLOSED = 2;
    readyState = 1;
    onerror = () => {};
    constructor() {
      sources.push(this);
    }
    addEventListener() {}
    close() {
      this.readyState = Source.CLOSED;
    }
  }
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("localStorage", { getItem: () => String(Date.now()) });
  class RequestOfPage extends Request {
    constructor(path: string, init?: RequestInit) {
      super(new URL(path, "http://console"), init);
    }
  }
  vi.stubGlobal("Request", RequestOfPage);
  const asking = vi.fn((_: Request, { signal }: RequestInit) => {
    return new Promise((_resolve, reject) => signal?.addEventListener("abort", reject));
  });
  vi.stubGlobal("fetch", asking);
  const end = new AbortController();
  void streamUntil(
    end.signal,
    "o",
    () => undefined,
    () => {},
  );
  await vi.advanceTimersByTimeAsync(72_000);
  sources[0]?.close();
  sources[0]?.onerror();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asking).toHaveBeenCalled();
  expect(sources.map(({ readyState }) => readyState)).toEqual([Source.CLOSED, 1]);
  end.abort();
  expect(sources.map(({ readyState }) => readyState)).toEqual([Source.CLOSED, Source.CLOSED]);
});
