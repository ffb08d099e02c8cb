import { afterEach, expect, test, vi } from "vitest";
import { ApiError } from "./api/error";
import { queryClient } from "./query-client";

afterEach(() => void vi.useRealTimers());

test.each([
  { status: 0, at: [0, 1, 3] },
  { status: 503, at: [0, 1, 3] },
  { status: 429, at: [0, 10, 20] },
  { status: 404, at: [0] },
])("after $status, it is asked in the seconds $at", async ({ status, at }) => {
  vi.useFakeTimers();
  const begin = Date.now();
  const asked: number[] = [];
  const queryFn = async () => {
    asked.push((Date.now() - begin) / 1_000);
    throw new ApiError(status, "UNREACHABLE", "", [], null);
  };
  void queryClient.fetchQuery({ queryKey: [status], queryFn }).catch(() => undefined);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual(at);
});
