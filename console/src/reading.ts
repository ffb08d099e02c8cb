import type { Query } from "@tanstack/react-query";

/** Milliseconds. Less than the time between two events, each of which begins the wait anew. */
const SOONEST = 100;

/** Return the time until what was read is to be read again. An event that changes the data does not put it off. */
export function untilReadAgain({ state }: Pick<Query, "state">, interval: number): number {
  if (state.fetchStatus !== "idle") return interval;
  const readAt = Math.max(state.dataUpdatedAt, state.errorUpdatedAt);
  return Math.min(interval, Math.max(SOONEST, readAt + interval - Date.now()));
}
