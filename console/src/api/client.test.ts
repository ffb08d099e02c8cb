import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { forgetUnanswered, send } from "./client";

const DEVICE = "http://console/api/v1/plants/roof/sub-devices/BAT1/commands";

/** The keys of the requests that reached the service. */
const keys: (string | null)[] = [];
let isConnected = true;

/** Browsers complete an address with that of the page. */
class RequestOfPage extends Request {
  constructor(input: string | Request, init?: RequestInit) {
    super(typeof input === "string" ? new URL(input, DEVICE) : input, init);
  }
}

beforeEach(() => {
  keys.length = 0;
  isConnected = true;
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async (request: Request) => {
    keys.push(request.headers.get("idempotency-key"));
    if (!isConnected) throw new TypeError("Failed to fetch");
    return new Response("{}", { status: 201 });
  });
});

afterEach(() => vi.unstubAllGlobals());

async function command(action: string, url = DEVICE): Promise<string | null> {
  await send(new Request(url, { method: "POST", body: JSON.stringify({ action }) })).catch(() => undefined);
  return keys.at(-1) ?? null;
}

async function lost(action: string): Promise<string | null> {
  isConnected = false;
  const key = await command(action);
  isConnected = true;
  return key;
}

test("a change whose response was lost has the same key when it is sent again, also after another page's change", async () => {
  const key = await lost("discharge");
  await command("rename", "http://console/api/v1/plants/roof");
  expect(await command("discharge")).toBe(key);
  expect(await command("discharge")).not.toBe(key);
});

test("a command that follows another one at the device is a new command", async () => {
  const key = await lost("discharge");
  await command("stop");
  expect(await command("discharge")).not.toBe(key);
});

test("what was made without a response and then deleted is made again", async () => {
  const key = await lost("discharge");
  await send(new Request(`${DEVICE}/7`, { method: "DELETE" }));
  expect(await command("discharge")).not.toBe(key);
});

test("only a change at a certain address is forgotten", async () => {
  const key = await lost("discharge");
  forgetUnanswered("/rotate-secret");
  expect(await command("discharge")).toBe(key);
  await lost("discharge");
  const before = keys.at(-1);
  forgetUnanswered("/commands");
  expect(await command("discharge")).not.toBe(before);
});

test("what reads and is not answered in time fails, a change is waited for", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", (_: Request, { signal }: RequestInit) => {
    return new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  });
  const outcome = (method: string) => {
    const ended = vi.fn();
    send(new Request(DEVICE, { method })).then(ended, ended);
    return ended;
  };
  const [read, changed] = [outcome("GET"), outcome("POST")];
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read).toHaveBeenCalledWith(expect.objectContaining({ status: 0, code: "UNREACHABLE" }));
  expect(changed).not.toHaveBeenCalled();
  vi.useRealTimers();
});

test("what reads fails if its body stops in the middle", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", async (_: Request, { signal }: RequestInit) => {
    const body = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode('{"data": ['));
        signal?.addEventListener("abort", () => controller.error(signal.reason));
      },
    });
    return new Response(body);
  });
  const ended = vi.fn();
  send(new Request(DEVICE)).then(ended, ended);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ended).toHaveBeenCalledWith(expect.objectContaining({ status: 0, code: "UNREACHABLE" }));
  vi.useRealTimers();
});

test("a response without a body stays one", async () => {
  vi.stubGlobal("fetch", async () => new Response(null, { status: 204, headers: { etag: "a" } }));
  const response = await send(new Request(DEVICE));
  expect([response.status, response.headers.get("etag"), await response.text()]).toEqual([204, "a", ""]);
});

test("a renewal whose response is lost is asked for again while the service accepts its token, and then waited for", async () => {
  vi.useFakeTimers();
  const begin = Date.now();
  const setItem = vi.fn();
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("localStorage", { getItem: () => String(begin - 11 * 60_000), setItem });
  vi.stubGlobal("Request", RequestOfPage);
  const asked: [string, number][] = [];
  vi.stubGlobal("fetch", ({ url }: Request, { signal }: RequestInit) => {
    asked.push([url.split("/").at(-1) ?? "", (Date.now() - begin) / 1_000]);
    const isLost = asked.length === 1;
    return new Promise((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
      if (!isLost) setTimeout(() => resolve(new Response("{}")), 20_000);
    });
  });
  const ended = vi.fn();
  send(new Request(DEVICE)).then(ended, ended);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual([
    ["refresh", 0],
    ["refresh", 4],
    ["commands", 24],
  ]);
  expect(setItem).toHaveBeenCalledWith("gridfleet-session", String(begin + 24_000));
  expect(ended).toHaveBeenCalledWith(expect.objectContaining({ ok: true }));
  vi.useRealTimers();
});
