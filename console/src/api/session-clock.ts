/**
 * What all tabs of a browser know about its session: when it began or was renewed. The session itself is in cookies, which
 * scripts cannot read.
 */

const KEY = "gridfleet-session";

/** Note that the session began or was renewed, or that it has ended. */
export function noteSession(exists: boolean): void {
  if (exists) localStorage.setItem(KEY, String(Date.now()));
  else localStorage.removeItem(KEY);
}

/** Return whether this browser has logged in and not out. The session may have ended since. */
export function hasSession(): boolean {
  return localStorage.getItem(KEY) !== null;
}

/** Return the milliseconds since the session began or was renewed; 0 without a session or after a clock was set back. */
export function sessionAge(): number {
  const time = localStorage.getItem(KEY);
  return time === null ? 0 : Math.max(0, Date.now() - Number(time));
}

/** Call `act` when another tab of this browser ends the session. */
export function onSessionEnd(act: () => void): void {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === KEY && newValue === null) act();
  });
}
