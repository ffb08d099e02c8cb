import type { InfiniteData, Query, QueryClient, QueryKey } from "@tanstack/react-query";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { apiOf } from "./api/client";
import { ApiError } from "./api/error";
import type { components, paths } from "./api/schema";
import { hasSession } from "./api/session-clock";
import { type FleetPlant, type FleetSummary, fleetPlantQuery, summaryQuery } from "./fleet";
import { type Places, placesQuery, withStates } from "./places";

type PlantPage = components["schemas"]["FleetPlantPage"];

/**
 * Whether the stream of the fleet delivers; `lost` after it has been interrupted for some seconds, `ended` without a session,
 * `removed` if the user no longer belongs to the organisation.
 */
export type StreamState = "connecting" | "live" | "lost" | "ended" | "removed";

interface Message {
  name: string;
  data: string;
  /** The id of the newest event, which may be this one; "" if it is not known. */
  id: string;
}

const STREAM = "/api/v1/fleet/live" satisfies keyof paths;
const EVENTS = ["summary", "plants", "gone", "alerts", "commands", "reset"];
const LOST_AFTER = 5_000;
const OPEN_AGAIN_AFTER = 5_000;
/** A quiet fleet has no events for long; nor has a broken connection that neither side has noticed. */
const SILENT_AFTER = 30_000;

/** Keep what is shown of an organisation as new as the service's events, with one stream for all tabs of the browser. */
export function useFleetStream(organizationId: string): StreamState {
  const queryClient = useQueryClient();
  const [state, setState] = useState<StreamState>("connecting");
  useEffect(() => {
    // The id of the newest event. Undefined: nothing can have been missed yet; "": it is not known what was.
    let position = document.hidden ? "" : undefined;
    let newest: StreamState = "connecting";
    let isReader = false;
    setState(newest);
    const apply = ({ name, data, id }: Message) => {
      position = id;
      if (name === "state") {
        newest = data as StreamState;
        setState(newest);
      } else {
        applyEvent(queryClient, organizationId, name, data);
      }
    };
    const channel = new BroadcastChannel(`gridfleet-live-${organizationId}`);
    const publish = (message: Message) => {
      apply(message);
      channel.postMessage(message);
    };
    channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.name !== "hello") apply(data);
      else if (isReader) channel.postMessage({ name: "state", data: newest, id: position ?? "" });
    };
    const read = (signal: AbortSignal) => {
      isReader = true;
      return streamUntil(signal, organizationId, () => position, publish);
    };
    // The tab that has the lock reads the stream, and passes its events on to the others. One of these continues after the
    // newest event when that tab is closed or hidden, so each asks for its id. Without TLS, browsers offer locks on localhost
    // alone; each tab then reads a stream of its own.
    channel.postMessage({ name: "hello", data: "", id: "" });
    const end = whileVisible((signal) => {
      // A tab that got the lock after it was hidden returns it at once.
      if (navigator.locks) navigator.locks.request(channel.name, () => signal.aborted || read(signal));
      else read(signal);
    });
    return () => {
      end();
      channel.close();
    };
  }, [queryClient, organizationId]);
  return state;
}

/**
 * Do something whenever the tab is visible, until the signal: browsers open six connections to a service of HTTP/1.1, and streams
 * of hidden tabs would leave none for requests. What a tab has missed comes when it is shown again.
 *
 * @returns Ends it.
 */
function whileVisible(act: (signal: AbortSignal) => void): () => void {
  let end = new AbortController();
  const follow = () => {
    end.abort();
    end = new AbortController();
    if (!document.hidden) act(end.signal);
  };
  follow();
  // Nothing else of the console does so: there is one stream of a tab.
  document.onvisibilitychange = follow;
  return () => {
    document.onvisibilitychange = null;
    end.abort();
  };
}

/**
 * Read the stream, also after interruptions, until the signal.
 *
 * @param position Returns the id after which it continues; "" if it is not known, undefined if nothing can have been missed.
 */
export function streamUntil(
  signal: AbortSignal,
  organizationId: string,
  position: () => string | undefined,
  publish: (message: Message) => void,
): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource | undefined;
    let lost: ReturnType<typeof setTimeout> | undefined;
    let wasInterrupted = false;
    let lastEventAt = Date.now();
    const publishState = (state: StreamState) => publish({ name: "state", data: state, id: position() ?? "" });
    const openAgain = async () => {
      const end = await endOf(organizationId);
      if (signal.aborted || end === null) return open();
      clearTimeout(lost);
      publishState(end);
      // The user may log in again in another tab, or become a member again.
      setTimeout(openAgain, OPEN_AGAIN_AFTER);
    };
    const open = () => {
      if (signal.aborted) return;
      source?.close();
      const query = new URLSearchParams({ organizationId });
      const lastEventId = position();
      if (lastEventId) query.set("lastEventId", lastEventId);
      source = new EventSource(`${STREAM}?${query}`);
      source.onopen = () => {
        lastEventAt = Date.now();
        const id = position() ?? "";
        // A stream that begins anew does not say what happened before it.
        if (id === "" && (wasInterrupted || position() !== undefined)) publish({ name: "reset", data: "{}", id });
        clearTimeout(lost);
        lost = undefined;
        wasInterrupted = false;
        publishState("live");
      };
      source.onerror = () => {
        wasInterrupted = true;
        // If the service answers, what is shown is read again all the same, less often.
        lost ??= setTimeout(async () => {
          lost = undefined;
          const status = await statusNow(organizationId);
          // The end of the session or of the membership is shown otherwise.
          if (source?.readyState === EventSource.OPEN || signal.aborted || status === 401 || status === 403) return;
          publishState(status > 0 ? "connecting" : "lost");
        }, LOST_AFTER);
        // Otherwise, the browser connects again by itself.
        if (source?.readyState === EventSource.CLOSED) setTimeout(openAgain, OPEN_AGAIN_AFTER);
      };
      for (const name of EVENTS) {
        source.addEventListener(name, (event: MessageEvent<string>) => {
          lastEventAt = Date.now();
          // The first of several events that belong together have no id in a stream that has just been opened.
          publish({ name, data: event.data, id: event.lastEventId || (position() ?? "") });
        });
      }
    };
    const checking = setInterval(async () => {
      const silentSince = lastEventAt;
      // A closed one is opened again anyway, also one that was closed while the service was asked.
      const isOpenedAnyway = () => source?.readyState === EventSource.CLOSED;
      if (isOpenedAnyway() || Date.now() - silentSince < SILENT_AFTER) return;
      const isReached = (await statusNow(organizationId)) > 0;
      if (isReached || signal.aborted || isOpenedAnyway() || lastEventAt !== silentSince) return;
      lastEventAt = Date.now();
      source?.close();
      publishState("lost");
      setTimeout(openAgain, OPEN_AGAIN_AFTER);
    }, SILENT_AFTER);
    signal.addEventListener("abort", () => {
      clearInterval(checking);
      clearTimeout(lost);
      source?.close();
      resolve();
    });
    open();
  });
}

/**
 * Return the status with which the service answers now; 0 if it does not, also if a proxy answers for it. Every member may read
 * groups, and one costs little.
 */
async function statusNow(organizationId: string): Promise<number> {
  try {
    await apiOf(organizationId).GET("/api/v1/plant-groups", { params: { query: { limit: 1 } } });
    return 200;
  } catch (error) {
    return error instanceof ApiError && error.code !== "UNREACHABLE" ? error.status : 0;
  }
}

/** Return why the stream of an organisation stays closed; null if it may be opened again. */
async function endOf(organizationId: string): Promise<"ended" | "removed" | null> {
  if (!hasSession()) return "ended";
  // Renews the session only if it has to: otherwise, a page that stays open would do so every few seconds.
  const status = await statusNow(organizationId);
  // A service that cannot be reached says nothing about the session or the membership.
  return status === 401 ? "ended" : status === 403 ? "removed" : null;
}

/** Change what is shown of an organisation by an event of the stream. */
export function applyEvent(queryClient: QueryClient, organizationId: string, name: string, text: string): void {
  const data: unknown = JSON.parse(text);
  const invalidate = (...key: string[]) => readAgain(queryClient, [organizationId, ...key]);
  if (name === "summary") {
    queryClient.setQueryData(summaryQuery(organizationId).queryKey, data as FleetSummary);
  } else if (name === "plants") {
    const changed = new Map((data as FleetPlant[]).map((plant) => [plant.id, plant]));
    change(queryClient, [organizationId, "fleet", "plants"], (list: InfiniteData<PlantPage>) =>
      withPlants(list, changed),
    );
    change(queryClient, placesQuery(organizationId).queryKey, (places: Places) => withStates(places, changed));
    for (const [id, plant] of changed) {
      change(queryClient, fleetPlantQuery(organizationId, id).queryKey, (known: FleetPlant | null) => known && plant);
      invalidate("plant", id);
      invalidate("latest", id);
    }
  } else if (name === "commands") {
    for (const plantId of new Set((data as { plantId: string }[]).map((command) => command.plantId))) {
      invalidate("commands", plantId);
    }
  } else if (name === "alerts") {
    invalidate("alerts");
  } else if (name === "gone") {
    invalidate("fleet");
  } else {
    invalidate();
  }
}

/** Queries that are being read, and are read once more afterwards. */
const readOnceMore = new WeakSet<Query>();

/**
 * Read again what is shown. What is being read is read to its end first, and then once more: it may be older than the event.
 *
 * If each event began the request anew, events that follow each other faster than the service responds, such as those of many
 * alerts over a slow connection, would keep a list from ever being read.
 */
function readAgain(queryClient: QueryClient, queryKey: QueryKey): void {
  const reading = queryClient.getQueryCache().findAll({ queryKey, type: "active", fetchStatus: "fetching" });
  const running = { cancelRefetch: false };
  void queryClient.invalidateQueries({ queryKey }, running);
  for (const query of reading.filter((one) => !readOnceMore.has(one))) {
    readOnceMore.add(query);
    void endOfReading(query).then(() => {
      readOnceMore.delete(query);
      void queryClient.invalidateQueries({ queryKey: query.queryKey, exact: true }, running);
    });
  }
}

/** Wait until what is being read has been read, or could not be. */
function endOfReading(query: Query): Promise<unknown> {
  return query.fetch().catch(() => undefined);
}

/**
 * Change data that has been read. An event has only some of the plants, so that the data stays as old as it was, and to be read
 * again if it was: otherwise, events that follow each other would keep all that they do not say from ever being read.
 */
function change<T>(queryClient: QueryClient, queryKey: QueryKey, changed: (data: T) => T | undefined): void {
  const cache = queryClient.getQueryCache();
  const apply = (query: Query) => {
    const { data, dataUpdatedAt, isInvalidated } = query.state;
    if (data === undefined || cache.get(query.queryHash) !== query) return;
    const updatedAt = isInvalidated ? 0 : dataUpdatedAt;
    queryClient.setQueryData<unknown>(query.queryKey, changed(data as T), { updatedAt });
  };
  for (const query of cache.findAll({ queryKey })) {
    apply(query);
    // A response may be older than the event; with a further page come the former ones as they were before its request.
    if (query.state.fetchStatus === "fetching") void endOfReading(query).then(() => apply(query));
  }
}

/** Return a list with the new state of plants that it contains. Which plants match and in what order is read again later. */
export function withPlants(
  list: InfiniteData<PlantPage> | undefined,
  changed: ReadonlyMap<string, FleetPlant>,
): InfiniteData<PlantPage> | undefined {
  return (
    list && {
      ...list,
      pages: list.pages.map((page) => ({ ...page, data: page.data.map((plant) => changed.get(plant.id) ?? plant) })),
    }
  );
}
