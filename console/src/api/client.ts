import createClient, { type Client } from "openapi-fetch";
import { ApiError, errorOf, mayBeMade } from "./error";
import type { paths } from "./schema";
import { hasSession, noteEnd, noteSession, sessionAge } from "./session-clock";

export type Api = Client<paths>;

const UNSAFE = new Set(["POST", "PUT", "PATCH", "DELETE"]);
/** An access token is valid for 15 minutes. Renewed before its end, no request fails because of it. */
const RENEW_AFTER = 10 * 60_000;
const JUST_NOW = 10_000;
/** Until then the service has answered what only reads, or ended it. Later, the connection is broken somewhere between. */
const ANSWERED_WITHIN = 45_000;
/** For some seconds only, the service accepts a token a second time: if the response to a renewal was lost, it is asked again. */
const RENEWED_WITHIN = 4_000;
/** Under load, other tabs read what a tab stored some milliseconds later than they get a lock that it released. */
const UNTIL_OTHERS_SEE = 100;
const REFRESH = "/api/v1/auth/refresh" satisfies keyof paths;
const ABOUT_ACCOUNTS = /\/api\/v1\/auth\//;
const ABOUT_SESSIONS = /\/api\/v1\/auth\/(login|refresh|logout)$/;
/** A logout needs a session: an access token that has expired is renewed for it, or the session would stay. */
const BEFORE_SESSIONS = /\/api\/v1\/auth\/(login|refresh)$/;
/** After that, the same change is probably meant a second time. */
export const REPEATED_WITHIN = 10 * 60_000;

/** The newest change that got no response, and its key. */
let unanswered: { url: string; content: string; key: string; at: number } | null = null;

/** Client without an organisation: login, own account, administration. */
export const api: Api = createClient<paths>({ fetch: send });

const clients = new Map<string, Api>();

/** Return the header of requests that are made in an organisation. */
export function inOrganization(id: string) {
  return { "x-org-id": id };
}

/** Return the client whose requests are made in an organisation. */
export function apiOf(organizationId: string): Api {
  let client = clients.get(organizationId);
  if (client === undefined) {
    client = createClient<paths>({ fetch: send, headers: inOrganization(organizationId) });
    clients.set(organizationId, client);
  }
  return client;
}

/**
 * Return the data of a call.
 *
 * @throws ApiError The service refused the request or was not reached.
 */
export async function dataOf<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  return data as T;
}

/**
 * Send a request; renew the session once if it has expired.
 *
 * A change that got no response may have been made. If the same one is sent again, it has the same key, unless another change
 * at the same address or below it was made in between: after another command to a device, or after an invitation was revoked,
 * the first one is meant a second time.
 *
 * @throws ApiError The response is an error, or there is none.
 */
export async function send(request: Request): Promise<Response> {
  if (!UNSAFE.has(request.method) || request.headers.has("idempotency-key")) return sendOnce(request);
  const content = await contentOf(request);
  const before = unanswered?.content === content && Date.now() - unanswered.at < REPEATED_WITHIN ? unanswered : null;
  const key = before?.key ?? newKey();
  request.headers.set("idempotency-key", key);
  try {
    const response = await sendOnce(request);
    if (unanswered !== null && request.url.startsWith(unanswered.url)) unanswered = null;
    return response;
  } catch (error) {
    if (mayBeMade(error) && content !== null) {
      unanswered = { url: request.url, content, key, at: Date.now() };
    }
    throw error;
  }
}

/** Forget a change without a response if its address ends so: the same one is now meant a second time. */
export function forgetUnanswered(end: string): void {
  if (unanswered?.url.endsWith(end)) unanswered = null;
}

/** Return what a request asks for; null for one about the account, which may hold a password. */
async function contentOf(request: Request): Promise<string | null> {
  if (ABOUT_ACCOUNTS.test(new URL(request.url).pathname)) return null;
  const organization = request.headers.get("x-org-id");
  return [request.method, request.url, organization, await request.clone().text()].join("\n");
}

async function sendOnce(request: Request): Promise<Response> {
  const needsSession = !BEFORE_SESSIONS.test(new URL(request.url).pathname);
  // If this fails, the access token is still valid for some minutes.
  if (needsSession && sessionAge() > RENEW_AFTER) await renewSession().catch(() => false);
  const copy = request.clone();
  let response = await reach(request);
  if (response.status === 401 && needsSession && (await renewSession())) response = await reach(copy);
  if (!response.ok) throw await errorOf(response);
  return response;
}

/**
 * Return the response to a request.
 *
 * @throws ApiError There is none, or for what reads and for sessions, none in time. Changes may take longer.
 */
export async function reach(request: Request, within = ANSWERED_WITHIN): Promise<Response> {
  const end = new AbortController();
  const isChange = UNSAFE.has(request.method) && !ABOUT_SESSIONS.test(new URL(request.url).pathname);
  const timer = isChange ? undefined : setTimeout(() => end.abort(), within);
  try {
    const response = await fetch(request, { signal: AbortSignal.any([request.signal, end.signal]) });
    // The end of the body counts: a connection may break in the middle of it.
    if (!isChange) await response.clone().arrayBuffer();
    return response;
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new ApiError(0, "UNREACHABLE", String(error), [], null);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Renew the session in one tab at a time.
 *
 * @returns Whether there is a session afterwards.
 * @throws ApiError The service could not say, because it is overloaded or was not reached.
 */
export async function renewSession(): Promise<boolean> {
  // Without TLS, browsers offer locks on localhost alone. Two tabs may then renew at once, which the service accepts.
  if (!navigator.locks) return isRenewed() ?? renew();
  return new Promise((resolve, reject) => {
    navigator.locks
      .request("gridfleet-session", async () => {
        const known = isRenewed();
        if (known !== undefined) return resolve(known);
        resolve(await renew());
        await new Promise((seen) => setTimeout(seen, UNTIL_OTHERS_SEE));
      })
      .catch(reject);
  });
}

/** Return whether there is a session, if another tab or request has just renewed or ended it. */
function isRenewed(): boolean | undefined {
  if (!hasSession()) return false;
  return sessionAge() < JUST_NOW || undefined;
}

async function renew(): Promise<boolean> {
  const request = new Request(REFRESH, { method: "POST" });
  // The second time as long as usual: the service may only be slow.
  const response = await reach(request, RENEWED_WITHIN).catch(() => reach(request));
  // Any other refusal than these says nothing about the session.
  if (!response.ok && response.status !== 400 && response.status !== 401) throw await errorOf(response);
  if (response.ok) noteSession();
  else noteEnd();
  return response.ok;
}

type Given<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Return the parameters that have a value. */
export function given<T extends object>(parameters: T): Given<T> {
  return Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== undefined)) as Given<T>;
}

/** Return a random key of 128 bits. `crypto.randomUUID` does not exist without TLS. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
