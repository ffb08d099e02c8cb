import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { readinessQuery } from "./admin";

test("a service that does not answer is not waited for without end", async () => {
  vi.useFakeTimers();
  vi.stubGlobal(
    "Request",
    class extends Request {
      constructor(path: string, options: RequestInit) {
        super(`http://console${path}`, options);
      }
    },
  );
  vi.stubGlobal("fetch", (_: Request, { signal }: RequestInit) => {
    return new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  });
  const failed = vi.fn();
  new QueryClient().fetchQuery(readinessQuery).catch(failed);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(failed).toHaveBeenCalledWith(expect.objectContaining({ status: 0, code: "UNREACHABLE" }));
  vi.unstubAllGlobals();
  vi.useRealTimers();
});
