/**
 * What all tabs of a browser know about its session: when it began or was renewed. The session itself is in cookies, which
 * scripts cannot read.
 */

const KEY = "gridfleet-session";
/** The id of the user who has logged in last. */
const USER = "gridfleet-user";
/** The service ended the session. The user did not log out, so forms in other tabs keep what was typed. */
const ENDED = "";

/** Note whose session begins. */
export function noteUser(id: string): void {
  localStorage.setItem(USER, id);
}

/** Note that the session began or was renewed. */
export function noteSession(): void {
  localStorage.setItem(KEY, String(Date.now()));
}

/** Note that the service knows no session. */
export function noteEnd(): void {
  localStorage.setItem(KEY, ENDED);
}

/** Note that the user has logged out. */
export function noteLogout(): void {
  localStorage.removeItem(KEY);
  localStorage.removeItem(USER);
}

/** Return whether this browser has logged in and not out. The session may have ended since without being noticed. */
export function hasSession(): boolean {
  return Boolean(localStorage.getItem(KEY));
}

/**
 * Return the milliseconds since the session began or was renewed; 0 without a session.
 *
 * @returns Infinity if that is in the future: a clock was set back, so it is unknown how long ago it was.
 */
export function sessionAge(): number {
  const time = localStorage.getItem(KEY);
  const age = time ? Date.now() - Number(time) : 0;
  return age < 0 ? Number.POSITIVE_INFINITY : age;
}

/** Call `act` when the user logs out in another tab of this browser. */
export function onLogout(act: () => void): void {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === KEY && newValue === null) act();
  });
}

/** Call `act` when another user logs in in another tab of this browser, in which the former one has not logged out. */
export function onOtherUser(act: () => void): void {
  addEventListener("storage", ({ key, oldValue, newValue }) => {
    if (key === USER && oldValue !== null && newValue !== null) act();
  });
}
