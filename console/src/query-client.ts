import { MutationCache, notifyManager, QueryClient } from "@tanstack/react-query";
import { ApiError } from "./api/error";

/** The service refuses what waited in vain for others of the organisation, and asks for this pause in milliseconds. */
const UNTIL_LESS_BUSY = 10_000;

// Not by a timer, which comes after a second click: the button of a request that is under way is disabled by then.
notifyManager.setScheduler(queueMicrotask);

export const queryClient = new QueryClient({
  mutationCache: new MutationCache({
    // Someone else has deleted it: what lists it is read again.
    onError: (error) => {
      // Not awaited: the error is shown at once.
      if (error instanceof ApiError && error.status === 404) void queryClient.invalidateQueries();
    },
  }),
  defaultOptions: {
    mutations: {
      // A request may have a password or a key: it is forgotten with its form.
      gcTime: 0,
      // Without a network, a change fails. Otherwise it would wait, and be made when its user has given it up.
      networkMode: "always",
    },
    queries: {
      // A refusal stays one; only a service that cannot be reached or is overloaded is asked again.
      retry: (count, error) =>
        count < 2 && !(error instanceof ApiError && error.status !== 429 && error.status >= 400 && error.status < 500),
      retryDelay: (count, error) =>
        error instanceof ApiError && error.status === 429 ? UNTIL_LESS_BUSY : 1_000 << count,
      staleTime: 10_000,
    },
  },
});
